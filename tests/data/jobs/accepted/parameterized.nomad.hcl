job "import" {
  type = "batch"

  meta {
    color = "red"
  }

  parameterized {
    payload       = "required"
    meta_required = ["set"]
    meta_optional = ["color"]
  }

  group "g" {
    meta {
      size = "group"
    }

    task "t" {
      driver = "exec"

      config {
        command = "/bin/cat"
        args    = ["/local/in/payload", "/data/${NOMAD_META_set}"]
      }

      dispatch_payload {
        file = "in/payload"
      }
    }
  }
}
