//! Names and numbers of programs, versions and procedures.

use super::*;

/// Returns a program with the numbers of the program, of two versions, and of two procedures of the
/// first version.
fn program(number: &str, versions: [&str; 2], procedures: [&str; 2]) -> String {
    let ([first, second], [null, next]) = (versions, procedures);
    format!(
        "program P {{\n version A {{\n  void NULL(void) = {null};\n  void NEXT(void) = {next};\n \
        }} = {first};\n \
         version B {{\n  void NULL(void) = 0;\n }} = {second};\n}} = {number};\n"
    )
}

#[test]
fn numbers_of_programs_versions_and_procedures() {
    legal(&program("0x20000001", ["1", "2"], ["0", "1"]));
    legal(&program(
        "0xffffffff",
        ["4294967295", "0"],
        ["0", "0xffffffff"],
    ));
    for number in [
        "-1",
        "4294967296",
        "0x100000000",
        "-9223372036854775808",
        "0xffffffffffffffff",
    ] {
        rejected(
            &program(number, ["1", "2"], ["0", "1"]),
            &["9:5 invalid-number"],
        );
        rejected(
            &program("1", [number, "2"], ["0", "1"]),
            &["5:6 invalid-number"],
        );
        rejected(
            &program("1", ["1", number], ["0", "1"]),
            &["8:6 invalid-number"],
        );
        rejected(
            &program("1", ["1", "2"], [number, "1"]),
            &["3:21 invalid-number"],
        );
        rejected(
            &program("1", ["1", "2"], ["0", number]),
            &["4:21 invalid-number"],
        );
    }
    rejected(
        &program("1", ["7", "7"], ["0", "1"]),
        &["8:6 duplicate-number <- 5:6"],
    );
    rejected(
        &program("1", ["1", "2"], ["3", "0x3"]),
        &["4:21 duplicate-number <- 3:21"],
    );
    // Numbers may be constants; their values are compared.
    rejected(
        &format!(
            "const N = 3; const M = -1;\n{}",
            program("M", ["N", "03"], ["0", "1"])
        ),
        &["9:6 duplicate-number <- 6:6", "10:5 invalid-number"],
    );
    rejected(
        &program("NONE", ["1", "2"], ["0", "1"]),
        &["9:5 undefined-constant"],
    );
    let one = "program P { version A { void NULL(void) = 0; } = 1; } = 9;\n";
    let two = "program Q { version B { void NULL(void) = 0; } = 1; } = 9;\n";
    rejected(&format!("{one}{two}"), &["2:57 duplicate-number <- 1:57"]);
}

#[test]
fn program_numbers_are_unique_per_module() {
    let one = "program P { version A { void NULL(void) = 0; } = 1; } = 9;\n";
    let module = |name: &str, file: &str, xdr: &str| Module::new(name).text(file, xdr);
    let two = one.replace("program P", "program Q");
    // Versions of a protocol, and revisions of one version (RFC 7531 and RFC 5662 both define
    // version 4 of program 100003), can be modules of one compilation, even if one uses another.
    for second in [one, &two, &one.replace("= 1;", "= 2;")] {
        let config = Config::new()
            .module(module("a", "a.x", one))
            .module(module("b", "b.x", second).uses("a"));
        let compilation = config.check();
        assert_eq!(positions(&compilation), [""; 0], "{second}");
        compilation.generate().expect(second);
        let programs = &compilation.schema().modules[1].programs;
        assert_eq!(programs[0].number, 9);
    }
    let both = Module::new("a").text("a.x", one).text("b.x", &two);
    assert_eq!(
        positions(&Config::new().module(both).check()),
        ["1:57 duplicate-number <- 1:57"]
    );
}

#[test]
fn names_of_programs_versions_and_procedures() {
    let version = "version A { void NULL(void) = 0; } = 1;";
    rejected(
        &format!("program P {{ {version} }} = 1;\nprogram P {{ {version} }} = 2;\n"),
        &["2:9 duplicate-definition <- 1:9"],
    );
    rejected(
        "program P {\n version A { void NULL(void) = 0; } = 1;\n version A { void NULL(void) = 0; \
        } = 2;\n} = 1;\n",
        &["3:10 duplicate-definition <- 2:10"],
    );
    rejected(
        "program P {\n version A {\n  void B(void) = 0;\n  int B(void) = 1;\n } = 1;\n} = 1;\n",
        &["4:7 duplicate-definition <- 3:8"],
    );
    rejected(
        "const P = 1;\nprogram P { version A { void B(void) = 0; } = 1; } = 1;\n",
        &["2:9 duplicate-definition <- 1:7"],
    );
}
