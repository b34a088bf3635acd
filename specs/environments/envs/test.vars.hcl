env      = "test"
ceph_key = "a-key-of-the-laboratory"
