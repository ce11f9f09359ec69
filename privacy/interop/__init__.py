"""Accounting inside other libraries: import the module of yours, as ``privacy.interop.opacus``."""
