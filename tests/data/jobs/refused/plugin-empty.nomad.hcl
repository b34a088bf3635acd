# expect: spec/missing-field job/csi-plugin
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      csi_plugin {
      }
    }
  }
}
