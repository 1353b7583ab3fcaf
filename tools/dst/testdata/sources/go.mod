module sources

go 1.26.0
