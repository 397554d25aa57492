TRUNCATE approaches.bought, approaches.bought_once
