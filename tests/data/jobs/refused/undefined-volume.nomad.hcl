# expect: job/volume-mount
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      volume_mount {
        volume      = "data"
        destination = "/data"
        propagation_mode = "private"
      }
    }
  }
}
