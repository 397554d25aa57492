SELECT stock FROM approaches.stock FOR UPDATE
