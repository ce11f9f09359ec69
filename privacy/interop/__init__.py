"""Accounting of this package inside other libraries: one module per library, which imports it.

Import the module of yours, such as ``from privacy.interop.opacus import Accountant``.
"""
