# expect: spec/missing-field spec/unknown-field
job "typo" {
  group "g" {
    volumes "data" {
    }
    task "t" {
      driver = "exec"
    }
  }
}
