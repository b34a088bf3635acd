# expect: spec/missing-field
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      lifecycle {
        sidecar = true
      }
    }
  }
}
