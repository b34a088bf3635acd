job "environment" {
  group "g" {
    task "t" {
      driver = "exec"
      env {
        DATA  = "/data"
        SHARD = "${NOMAD_ALLOC_INDEX}"
        DEBUG = true
        LEVEL = 3
        HOST  = "${node.unique.name}"
        HOME_ = "$${HOME}"
      }
    }
  }
}
