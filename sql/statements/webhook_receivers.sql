SELECT name, document FROM webhook_receivers()
