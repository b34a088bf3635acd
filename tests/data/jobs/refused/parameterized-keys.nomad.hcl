# expect: job/duplicate
job "x" {
  type = "batch"
  parameterized {
    meta_required = ["set"]
    meta_optional = ["set", "color"]
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
