"""Accounting of this package inside other libraries: one module per library.

Import the module of your library, such as ``from privacy.interop.opacus import Accountant``. Each
one imports its library; nothing else in this package does.
"""
