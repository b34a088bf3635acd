job "constraints" {
  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }

  constraint {
    attribute = "${attr.nomad.version}"
    operator  = "version"
    value     = ">= 1.6, < 3.0.0"
  }

  constraint {
    distinct_hosts = true
  }
  group "g" {
    constraint {
      attribute = "${node.class}"
      regexp    = "^(storage|db)$"
    }
    task "t" {
      driver = "exec"
      constraint {
        attribute = "${meta.rack}"
        operator  = "is_set"
      }
    }
  }
}
