job "plugin" {
  type = "system"
  group "g" {
    task "t" {
      driver = "docker"
      csi_plugin {
        id        = "hostpath"
        type      = "monolith"
        mount_dir = "/csi"
      }

      config {
        image = "hostpath:1"
        args  = ["--endpoint=unix:///csi/csi.sock", "--nodeid=${node.unique.id}"]
      }
    }
  }
}
