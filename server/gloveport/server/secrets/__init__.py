"""Secrets: values that must not be shown, and finding them in text.

Purpose: hold secret values, and take them out of text before it is stored or shown.
Invariant: no repr, str, log line or error of this room carries a secret value.
Must never: decide whether a secret may be used.
"""
