module grapnel/receiver

go 1.19
