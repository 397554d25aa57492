INSERT INTO approaches.bought VALUES ($1)
