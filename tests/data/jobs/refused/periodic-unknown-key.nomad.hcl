# expect: spec/unknown-field
job "x" {
  type = "batch"
  periodic {
    crons             = ["@daily"]
    prohibit_overlaps = true
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
