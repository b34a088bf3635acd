# expect: job/volume-mode job/volume-mode
job "x" {
  group "g" {
    volume "data" {
      type   = "csi"
      source = "db"
    }
    task "t" {
      driver = "exec"
    }
  }
}
