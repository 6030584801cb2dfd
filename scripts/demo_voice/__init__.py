"""Training pipeline of the demo voice (assets/demo-voice): tools for people, never imported by the package."""
