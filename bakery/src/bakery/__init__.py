"""bakery turns a folder of source into an inferlet: one WebAssembly component."""

__version__ = "0.1.0"
