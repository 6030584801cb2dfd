"""The face of the package: ``TTS`` and ``Omni``, used by the command line too."""
