SELECT user_id FROM approaches.bought_once
