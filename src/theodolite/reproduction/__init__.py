"""Reproduce a paper on your own models and text: plan and run surveys, draw exhibits, write an index page."""
