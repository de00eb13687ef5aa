"""Probing: can a small classifier read a word's class off its vector, and off nothing else?"""
