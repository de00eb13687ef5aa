"""The analyses of the papers: from the tables of finished surveys to tables ready to draw; the laboratories."""
