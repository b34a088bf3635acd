# expect: spec/unknown-field spec/unknown-field job/volume-mount
job "typo" {
  group "g" {
    coutn = 2
    task "t" {
      driver = "exec"
      volume_mount {
        volume = "data"
        dest   = "/data"
      }
    }
  }
}
