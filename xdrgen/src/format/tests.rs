use super::format;

#[track_caller]
fn assert_formatted(text: &str, expected: &str) {
    let found = format("a.x", text).expect("no syntax error");
    assert_eq!(found, expected);
    let again = format("a.x", &found).expect("no syntax error");
    assert_eq!(again, found, "formatting twice");
}

#[test]
fn constructs() {
    assert_formatted(
        "const  A=1 ;\nconst B = -2;typedef opaque  h < A >;typedef struct node * list;\n\
         typedef string name<>;typedef unsigned   int u [ 4 ];\n",
        "const A = 1;\nconst B = -2;\ntypedef opaque h<A>;\ntypedef struct node *list;\n\
         typedef string name<>;\ntypedef unsigned int u[4];\n",
    );
    assert_formatted(
        "const  A=\"a  b;{\" ;const B=\"/* */\";",
        "const A = \"a  b;{\";\nconst B = \"/* */\";\n",
    );
    assert_formatted(
        "union u switch(int s){case 0:case 1:int x;default:void;};",
        "union u switch (int s) {\ncase 0:\ncase 1:\n    int x;\ndefault:\n    void;\n};\n",
    );
    assert_formatted(
        "struct s{struct{int a;enum{X=1}k;}in;union switch(bool b){case TRUE:int y;}v;};",
        "struct s {\n    struct {\n        int a;\n        enum {\n            X = 1\n        } \
         k;\n    } in;\n    \
         union switch (bool b) {\n    case TRUE:\n        int y;\n    } v;\n};\n",
    );
    assert_formatted(
        "program P{version V{void NULL(void)=0;r GET(key,a)=1;}=1;}=0x20;",
        "program P {\n    version V {\n        void NULL(void) = 0;\n        r GET(key, a) = \
         1;\n    } = \
         1;\n} = 0x20;\n",
    );
    assert_formatted(
        "namespace a::b{const A=1;}const B=2;",
        "namespace a::b {\nconst A = 1;\n}\nconst B = 2;\n",
    );
}

#[test]
fn names_of_another_scope() {
    assert_formatted(
        "union u switch(c s){case c::A:int x;case n::c::B:void;default:void;};",
        "union u switch (c s) {\ncase c::A:\n    int x;\ncase n::c::B:\n    void;\n\
         default:\n    void;\n};\n",
    );
}

#[test]
fn members_and_comments_are_aligned() {
    assert_formatted(
        "enum e { A=1, /* one */\n LONGER  = 22, // two\n /* alone */\n B = 3\n\n,};\n",
        "enum e {\n    A      = 1,  /* one */\n    LONGER = 22, // two\n    /* alone */\n    \
         B      = 3,\n};\n",
    );
    assert_formatted(
        "struct s { int a; /* first\n                    * second */\n  /* own\n   * line */ \
         int b;\n};",
        "struct s {\n    int a; /* first\n             * second */\n    /* own\n     * line \
         */\n    int b;\n};\n",
    );
    assert_formatted(
        "const A /* why */ = 1;\ntypedef int // here\n x;\n/* end */",
        "const A /* why */ = 1;\ntypedef int // here\n    x;\n/* end */\n",
    );
}

#[test]
fn blank_lines_are_kept_once() {
    assert_formatted(
        "\n\nconst A = 1;\n\n\n\n/* b */\n\nstruct s {\n\n  int a;\n\n\n  int b;\n\n};\n\n\n",
        "const A = 1;\n\n/* b */\n\nstruct s {\n    int a;\n\n    int b;\n};\n",
    );
}

#[test]
fn lines_for_other_tools_are_not_changed() {
    assert_formatted(
        "%#include  \"a.h\"\n#if 0\n  don't  \
         { /* open\n#endif\n#define N   4\nstruct s {\n%/* c */\n int a;\n\
         #ifdef X\n   int b;\n#endif\n};\n%#define LONG \\\n   1\n",
        "%#include  \"a.h\"\n#if 0\n  don't  { /* open\n#endif\n#define N   4\nstruct s {\n\
         %/* c */\n    int a;\n\
         #ifdef X\n   int b;\n#endif\n};\n%#define LONG \\\n   1\n",
    );
}

#[test]
fn comments_that_if_excludes_are_not_changed() {
    let excluded = "#if 0\n     /* kept\n  as is */\n   int  b;\n#endif\n";
    assert_formatted(
        &format!("struct s {{ int a;\n{excluded}}};\n"),
        &format!("struct s {{\n    int a;\n{excluded}}};\n"),
    );
}

#[test]
fn line_ends_and_byte_order_marks() {
    assert_formatted(
        "\u{feff}const A=1;\r\n/* a\r\n b */",
        "const A = 1;\r\n/* a\r\n b */\r\n",
    );
    assert_formatted("", "");
}

#[test]
fn a_syntax_error_is_reported() {
    let error = format("a.x", "struct s { int x }").expect_err("no semicolon");
    assert!(error.to_string().contains("a.x:1:"), "{error}");
}
