job "host" {
  group "g" {
    volume "data" {
      type   = "host"
      source = "scratch"
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
