SELECT stock FROM approaches.stock
