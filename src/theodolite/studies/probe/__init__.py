"""Probing: can a small classifier predict the class of a word from its vector?"""
