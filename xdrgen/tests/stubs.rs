//! Tests items, clients and services: the generated code, and the report of each wrong setting.

mod common;

use common::Folder;
use xdrgen_build::{Code, Compilation, Config, Level, Module, Overlay, Shapes, Stubs, Style};

const KV: &str = include_str!("kv/kv.x");

const BOTH: Stubs = Stubs {
    client: true,
    server: true,
};

/// Returns the content of a module's generated file.
fn generated(compilation: &Compilation, file: &str) -> String {
    let files = compilation
        .generate()
        .unwrap_or_else(|report| panic!("{report}"));
    let file = files.into_iter().find(|found| found.name == file);
    file.expect("a file of that name").content
}

/// Removes the line with the version of this package.
fn without_version(content: &str) -> String {
    content.lines().skip(1).collect::<Vec<_>>().join("\n")
}

#[test]
fn generated_stubs_match_their_snapshots() {
    let config = Config::from_manifest("tests/kv/xdrgen.toml").expect("a manifest");
    let compilation = config.check();
    for file in ["kv.rs", "kv.owned.rs"] {
        let content = without_version(&generated(&compilation, file));
        insta::assert_snapshot!(file, content);
    }
}

#[test]
fn the_builder_has_every_setting_of_the_manifest() {
    let by_manifest = Config::from_manifest("tests/kv/xdrgen.toml").expect("a manifest");
    let module = Module::new("kv")
        .text("kv.x", KV)
        .strip("kv_")
        .stubs(BOTH)
        .ddp("get_ok.value")
        .ddp("put_args.value")
        .item_result("get_res")
        .idempotent("KV_GET")
        .reply_item("get_ok.value", "get_args.count");
    let by_builder = Config::new().module(module);
    for file in ["kv.rs", "kv.owned.rs"] {
        assert_eq!(
            generated(&by_builder.check(), file),
            generated(&by_manifest.check(), file)
        );
    }
}

/// Returns the report of the store with these lines of its manifest.
fn report(settings: &str) -> String {
    let (of_module, rules) = settings.split_once("---").unwrap_or((settings, ""));
    let manifest = format!(
        "[[module]]\npath = \"kv\"\ndocuments = \
        [\"kv.x\"]\n{of_module}\n[module.reply_items]\n{rules}\n"
    );
    let folder = Folder::new()
        .with("kv.x", KV)
        .with("xdrgen.toml", manifest.as_bytes());
    let report = match Config::from_manifest(folder.path("xdrgen.toml")) {
        Ok(config) => config.check().report(Style::Plain),
        Err(error) => error.to_string(),
    };
    folder.relative(&report)
}

#[test]
fn wrong_items() {
    let report = report(
        "ddp = [
    \"value\",
    \"put_arg.value\",
    \"put_args.valeu\",
    \"put_args.nothing\",
    \"get_args.count\",
    \"get_res.ok\",
    \"kv_key.value\",
    \"KV_GET.value\",
    \"put_args.value\",
    \"put_args.value\",
]",
    );
    insta::assert_snapshot!(report);
}

#[test]
fn wrong_procedures() {
    let report =
        report("stubs = [\"client\"]\nidempotent = [\"KV_GTE\", \"get_args\", \"KV_GET\"]");
    insta::assert_snapshot!(report);
}

#[test]
fn wrong_reply_items() {
    let report = report(
        "stubs = [\"client\"]
ddp = [\"get_ok.value\", \"put_args.value\"]
---
\"get_ok.valu\" = \"get_args.count\"
\"get_ok.version\" = \"get_args.count\"
\"get_ok.value\" = \"get_args.key\"
\"put_args.value\" = \"get_args.count\"
",
    );
    insta::assert_snapshot!(report);
}

#[test]
fn wrong_item_results() {
    let report = report(
        "ddp = [\"get_ok.value\"]
item_results = [\"get_rse\", \"get_ok\", \"get_res\", \"get_res\"]
",
    );
    insta::assert_snapshot!(report);
}

#[test]
fn wrong_stubs() {
    let cases = [
        ("unknown_stub", "stubs = [\"client\", \"sever\"]"),
        (
            "stubs_of_a_borrowed_shape",
            "shapes = \"borrowed\"\nstubs = [\"server\"]",
        ),
        (
            "settings_without_stubs",
            "ddp = [\"get_ok.value\"]\nidempotent = [\"KV_GET\"]\n---\n\"get_ok.value\" = \
            \"get_args.count\"",
        ),
    ];
    for (name, settings) in cases {
        let report = report(settings);
        insta::assert_snapshot!(name, report);
    }
}

/// Returns the messages for a text with both stubs.
fn messages(module: Module) -> Vec<String> {
    let compilation = Config::new().module(module.stubs(BOTH)).check();
    let found = compilation.diagnostics().iter();
    found.map(|found| found.message.clone()).collect()
}

fn program(procedures: &str) -> Module {
    let text = format!("program P {{ version V {{ {procedures} }} = 1; }} = 2;");
    Module::new("a").text("a.x", text)
}

#[test]
fn programs_without_stubs() {
    assert_eq!(
        messages(Module::new("a").text("a.x", "const A = 1;")),
        ["`stubs`: the module `a` has no program"]
    );
    assert_eq!(
        messages(program("int A(void) = 0;")),
        [
            "`stubs`: procedure 0 has neither arguments nor results (RFC 5531, section 12.1), but \
            `A` has"
        ]
    );
    let config = Config::new().owned_feature("alloc");
    let compilation = config.module(program("").stubs(BOTH)).check();
    assert!(
        compilation
            .report(Style::Plain)
            .contains("which are behind the feature `alloc`")
    );
}

#[test]
fn names_that_the_stubs_define() {
    assert_eq!(
        messages(program(
            "void CLIENT(void) = 1; void NEW(void) = 2; void T(void) = 3; void GET(void) = 4;"
        )),
        [
            "the procedure `CLIENT` is `Client` in Rust, which the stubs define",
            "the procedure `NEW` is `new` in Rust, which the stubs define",
            "the procedure `T` is `T` in Rust, which the stubs define",
        ]
    );
    assert_eq!(
        messages(program(
            "void AUTHORIZE(void) = 1; string GET(void) = 2; void GET_RESULTS(void) = 3;
            int PUT(void) = 4; void PUT_RESULTS(void) = 5; void NULL_RESULTS(void) = 6;"
        )),
        [
            "the procedure `AUTHORIZE` is `authorize` in Rust, which the stubs define",
            "the procedure `GET_RESULTS` is `GetResults` in Rust, which the stubs define",
        ]
    );
    let server = Stubs {
        client: false,
        server: true,
    };
    let client = Stubs {
        client: true,
        server: false,
    };
    let module =
        program("void AUTHORIZE(void) = 1; string GET(void) = 2; void GET_RESULTS(void) = 3;");
    let compilation = Config::new().module(module.stubs(client)).check();
    assert_eq!(compilation.diagnostics(), []);
    let module = program("void CLIENT(void) = 1; void NEW(void) = 2;").stubs(server);
    let compilation = Config::new().module(module).check();
    assert_eq!(compilation.diagnostics(), []);
}

/// The procedures of two programs. One item is in an array.
const LIMITS: &str = "
typedef opaque data<>;
struct part { unsigned hyper size; };
struct args { part inner; unsigned int count; };
struct ok { opaque first<100>; int after; data second; };
struct some { opaque only<50>; };
union res switch (int status) {
case 0: ok ok;
case 1: some some;
case 2: int code;
default: void;
};
struct many { some each<4>; };
program P { version V {
    res ONE(args) = 1;
    res TWO(int, args) = 2;
    many MANY(void) = 3;
    some BOUNDED(void) = 4;
    data WHOLE(void) = 5;
} = 1; } = 2;
";

/// Returns the body of `reply_limits` of each procedure that has one, in one line.
fn limits(module: Module) -> Vec<String> {
    let module = ["ok.first", "ok.second", "some.only"]
        .into_iter()
        .fold(module.text("a.x", LIMITS), Module::ddp);
    let compilation = Config::new().module(module.stubs(BOTH)).check();
    let content = generated(&compilation, "a.rs");
    let mut bodies = content.split("fn reply_limits(");
    bodies.next();
    let in_one_line = |body: &str| {
        let end = body.find('}').expect("the end of the function");
        let line: String = body[..end].split_whitespace().collect();
        line.replace(",)", ")")
    };
    bodies.map(in_one_line).collect()
}

#[test]
fn reply_limits_of_procedures() {
    const NEW: &str = "rpc::ReplyLimits::new(::core::option::Option::Some";
    let start = |args: &str| format!("{args}:&Self::Args<'_>)->rpc::ReplyLimits{{{NEW}");
    // The arms' first items have 100 and 50 bytes; the second is unbounded.
    let res = format!(
        "{}(16)).item(::core::cmp::Ord::max(100,50)).unbounded_item()",
        start("_")
    );
    let bounded = format!("{}(4)).item(50)", start("_"));
    // Items in arrays are not listed, so that they are sent in the message. A type without items
    // needs no limits.
    assert_eq!(
        limits(Module::new("a")),
        [res.clone(), res.clone(), bounded.clone()]
    );
    let by_arguments = Module::new("a")
        .reply_item("ok.first", "args.count")
        .reply_item("ok.second", "part.size");
    let second = |args: &str| format!("u32::try_from({args}.inner.size).unwrap_or(u32::MAX)");
    let first =
        |args: &str| format!("::core::cmp::Ord::max(::core::cmp::Ord::min({args}.count,100),50)");
    let of = |args: &str| {
        format!(
            "{}(16)).item({}).item({})",
            start("args"),
            first(args),
            second(args)
        )
    };
    let found = limits(by_arguments.clone());
    assert_eq!(found, [of("args"), of("args.1"), bounded]);
    // Fields have their names in Rust.
    let renamed = limits(by_arguments.rename("args.count", "length"));
    let names = |text: &String| text.replace(".count", ".length");
    assert!(
        renamed
            .iter()
            .eq(&found.iter().map(names).collect::<Vec<_>>()),
        "{renamed:?}"
    );
}

#[test]
fn reply_limits_count_eight_items() {
    let fields: String = (0..9).map(|at| format!("opaque f{at}<>; ")).collect();
    let text = format!(
        "struct s {{ {fields} }}; program P {{ version V {{ s A(void) = 1; }} = 1; }} = 2;"
    );
    let module = (0..9).fold(Module::new("a").text("a.x", text), |module, at| {
        module.ddp(format!("s.f{at}"))
    });
    assert_eq!(
        messages(module),
        ["the results of `A` have more than 8 items"]
    );
}

#[test]
fn results_are_owned_without_borrowed_shapes() {
    let module = Module::new("kv")
        .text("kv.x", KV)
        .shapes(Shapes::Owned)
        .ddp("put_args.value");
    let content = generated(&Config::new().module(module.stubs(BOTH)).check(), "kv.rs");
    for line in [
        "pub value: xdr::Item<'static>,",
        "type Results = super::super::GetRes;",
        "Output = ::core::result::Result<super::super::GetRes, rpc::RpcError>,",
        "use ::oncrpc::xdr;",
    ] {
        assert!(content.contains(line), "{line}\n{content}");
    }
    assert!(!content.contains("xdrgen_runtime"), "{content}");
}

/// An overlay cannot refer to a field that is an item.
#[test]
fn overlay_of_an_item_is_rejected() {
    let text = "const A = 1; struct a { int x; }; struct c { unsigned int kind; opaque body<>; };";
    let overlay = xdrgen_build::Overlay {
        name: "Body".into(),
        carrier: "c".into(),
        code: "kind".into(),
        data: "body".into(),
        cases: vec![("A".into(), "a".into())],
        ..Default::default()
    };
    let module = Module::new("a").text("a.x", text).overlay(overlay);
    let report = Config::new()
        .module(module.ddp("c.body"))
        .check()
        .report(Style::Plain);
    assert!(
        report.contains("the overlay `Body`: the field `body` is an item, by `ddp`"),
        "{report}"
    );
}

/// Two versions of a program in separate documents, like NFSv3 and NFSv4 of program 100003.
#[test]
fn program_versions_in_separate_modules() {
    let version = |number| {
        format!(
            "struct store_reply {{ int number; }};\nprogram STORE_PROGRAM {{\n    \
             version STORE_V{number} {{\n        store_reply STORE_NEXT(int) = 1;\n    \
             }} = {number};\n}} = 100999;\n"
        )
    };
    let module = |number| {
        format!(
            "[[module]]\npath = \"store{number}\"\ndocuments = [\"store{number}.x\"]\n\
             stubs = [\"client\", \"server\"]\nidempotent = [\"STORE_NEXT\"]\n"
        )
    };
    let folder = Folder::new()
        .with("store3.x", version(3).as_bytes())
        .with("store4.x", version(4).as_bytes())
        .with(
            "xdrgen.toml",
            format!("{}{}", module(3), module(4)).as_bytes(),
        );
    let config = Config::from_manifest(folder.path("xdrgen.toml")).expect("a manifest");
    let both = config.check();
    assert!(
        both.diagnostics().is_empty(),
        "{}",
        both.report(Style::Plain)
    );
    for number in [3, 4] {
        let file = format!("store{number}.rs");
        let alone = Module::new(format!("store{number}"))
            .text(file.replace(".rs", ".x"), version(number))
            .stubs(BOTH)
            .idempotent("STORE_NEXT");
        let alone = Config::new().module(alone).check();
        assert_eq!(generated(&both, &file), generated(&alone, &file));
    }
}

#[test]
fn wrong_open_enums() {
    let report = report(
        "open = [
    \"kv_statu\",
    \"get_args\",
    \"KV_GET\",
    \"kv_status\",
    \"kv_status\",
]",
    );
    insta::assert_snapshot!(report);
}

/// The variant for other values has a name that no member has; otherwise the clash is reported.
#[test]
fn unknown_variant_does_not_clash() {
    let opened = |members: &str| {
        let xdr = format!("enum e {{ {members} }};");
        let module = Module::new("m").text("m.x", xdr).open("e");
        Config::new().module(module).check()
    };
    assert!(!opened("E_UNKNOWN = 0, E_A = 1").has_errors());
    let clash = opened("E_UNKNOWN = 0, E_UNKNOWN_VALUE = 1");
    assert!(clash.report(Style::Plain).contains("name-clash"));
}

/// The methods of a visitor have names that differ, whatever the arms are called, and its own name
/// clashes with no type.
#[test]
fn visitors_have_names_of_their_own() {
    let compiled = |other: &str| {
        let xdr = format!(
            "union u switch (int which) {{ case 0: int a; case 1: int b; case 2: void; \
             default: string match<>; }};\n{other}\nstruct s {{ u all<>; }};"
        );
        let module = Module::new("m").text("m.x", xdr);
        Config::new().module(module).check()
    };
    let content = generated(&compiled(""), "m.rs");
    let visitor = content.split("pub trait UVisitor").nth(1);
    let visitor = visitor.and_then(|rest| rest.split("\n}").next());
    insta::assert_snapshot!(visitor.expect("a visitor"));
    let clash = compiled("struct u_visitor { int a; };");
    assert!(clash.report(Style::Plain).contains("name-clash"));
    let enumerated = "enum e { OTHER = 0, Default = 1, DEFAULT_ARM = 2, MATCH = 3 };\n\
                      union u switch (e which) { case OTHER: int a; case Default: void; \
                      case MATCH: int b; default: int c; };\nstruct s { u type<>; };";
    let module = Module::new("m").text("m.x", enumerated);
    let content = generated(&Config::new().module(module).check(), "m.rs");
    let methods = content
        .split("pub trait UVisitor")
        .nth(1)
        .expect("a visitor");
    for method in [
        "fn other(",
        "fn other_(",
        "fn default(",
        "fn r#match(",
        "fn default_arm(",
    ] {
        assert!(methods.contains(method), "{method} in {methods}");
    }
}

/// Aliases of members, modules of programs and versions, and variants of overlays are names, too.
#[test]
fn other_names_do_not_clash() {
    let report = |xdr: &str, manifest: fn(Module) -> Module| {
        let module = manifest(Module::new("m").text("m.x", xdr.to_owned()));
        let config = Config::new().module(module);
        let config = config.lint(Code::DuplicateEnumValue, Level::Allow);
        config.expect("the lint").check().report(Style::Plain)
    };
    let version = "{ void NULL(void) = 0; }";
    let programs = format!(
        "program P_1 {{ version V {version} = 1; version v {version} = 2; }} = 1;\n\
         program p_1 {{ version W {version} = 1; }} = 2;"
    );
    let clashes = report(&programs, |module| module);
    assert!(
        clashes.contains("the versions `V` and `v` are both `v`"),
        "{clashes}"
    );
    assert!(
        clashes.contains("the programs `P_1` and `p_1` are both `p_1`"),
        "{clashes}"
    );
    let clashes = report("enum e { A = 1, a_b = 1, aB = 1 };", |module| module);
    assert!(
        clashes.contains("`a_b` and `aB` are both `AB`"),
        "{clashes}"
    );
    let contents = "const C_UNKNOWN = 1; const C_A = 2; struct a { int b; };\n\
                    struct c { unsigned int code; opaque data<>; };";
    let clashes = report(contents, |module| {
        let case = |constant: &str| (constant.to_owned(), "a".to_owned());
        module.overlay(Overlay {
            name: "Content".to_owned(),
            carrier: "c".to_owned(),
            code: "code".to_owned(),
            data: "data".to_owned(),
            strip: vec!["C_".to_owned()],
            cases: vec![case("C_UNKNOWN"), case("C_A")],
            ..Overlay::default()
        })
    });
    assert!(
        clashes.contains("`C_UNKNOWN` are both `Unknown`"),
        "{clashes}"
    );
}
