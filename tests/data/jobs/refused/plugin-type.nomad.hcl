# expect: job/csi-plugin
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      csi_plugin {
        id        = "hostpath"
        type      = "nod"
        mount_dir = "/csi"
      }
    }
  }
}
