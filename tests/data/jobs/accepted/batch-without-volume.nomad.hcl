job "batch" {
  type        = "batch"
  priority    = 70
  datacenters = ["dc1", "dc2"]
  node_pool   = "all"
  namespace   = "default"
  region      = "global"
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
