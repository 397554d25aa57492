SELECT kind, tx, seq FROM feed_end()
