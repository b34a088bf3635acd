job "sticky" {
  group "g" {
    volume "data" {
      type        = "host"
      source      = "scratch"
      sticky      = true
      access_mode = "single-node-single-writer"
    }
    task "t" {
      driver = "exec"
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }
  }
}
