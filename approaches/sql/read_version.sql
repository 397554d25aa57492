SELECT version FROM approaches.stock WHERE stock > 0
