# expect: job/not-supported
# Nomad accepts this.
# Reason: this program does not carry it out, and without it the job could do something else to its volumes.
job "x" {
  type = "batch"
  parameterized {
    meta_required = ["set"]
  }
  group "g" {
    task "t" {
      driver = "exec"
      config {
        command = "/bin/rm"
        args    = ["-rf", "/data/${NOMAD_META_set}"]
      }
    }
  }
}
