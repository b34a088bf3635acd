# expect: job/csi-plugin
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      csi_plugin {
        id        = "hostpath"
        type      = "monolith"
        mount_dir = "/csi"
        stage_publish_base_dir = "/csi/staging"
      }
    }
  }
}
