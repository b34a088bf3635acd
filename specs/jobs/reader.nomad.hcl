# A batch job that reads what specs/jobs/writer.nomad.hcl wrote.
#
#   nomad-csi job run specs/jobs/reader.nomad.hcl

job "reader" {
  type = "batch"

  group "app" {
    volume "data" {
      type            = "csi"
      source          = "database"
      read_only       = true
      access_mode     = "single-node-reader-only"
      attachment_mode = "file-system"
    }

    task "print" {
      driver = "exec"

      config {
        command = "/bin/cat"
        args    = ["/data/log"]
      }

      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }
  }
}
