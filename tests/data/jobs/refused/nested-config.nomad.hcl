# expect: spec/nested-config job/volume-mode job/volume-mode
job "old" {
  group "g" {
    volume "data" {
      type = "csi"

      config {
        source = "db"
      }
    }
    task "t" {
      driver = "exec"
    }
  }
}
