SELECT name, state, tries, unsent_ms FROM webhook_receivers()
