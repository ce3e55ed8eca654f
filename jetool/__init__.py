"""The command line of jetool: each command parses options, calls the engine, and renders the result. Everything else
lives in ``engine``.
"""
