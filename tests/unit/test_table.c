/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables as strangers write them: small imitations of the forms of public data sets, and what is
 * told about them. */
#include "dataset_files.h"

struct sample {
    float x[8];
    uint32_t label;
};

/* A file, the model's sizes, and what must be in it. */
struct form {
    const char *name, *text, *options;
    uint32_t inputs, outputs;
    struct sample first, last; /* of the whole file */
    uint32_t lines, classes;
    const char *told;
};

static void expect_form(const struct form *f)
{
    char all[64];
    print_message("%s\n", f->name);
    snprintf(all, sizeof all, "%s,test=0", f->options);
    write_text("a.csv", f->text);
    struct uw_data d = open_good(
        csv(all), &(struct uw_data_config){.channels = f->inputs, .outputs = f->outputs});
    assert_int_equal(d.base->samples_n, f->lines);
    assert_int_equal(d.base->channels, f->inputs);
    assert_int_equal(d.base->classes, f->classes);
    expect_sample(&d, 0, f->first.x, f->first.label);
    expect_sample(&d, f->lines - 1, f->last.x, f->last.label);
    expect_told(&d, f->told);
    uw_data_close(&d);
}

static const struct form public_sets[] = {
    {"wine quality", "\"fixed acidity\";\"pH\";\"quality\"\n7.4;3.51;5\n7.8;3.2;3\n7;3.1;8\n",
     "", 2, 9, {{7.4f, 3.51f}, 5}, {{7.0f, 3.1f}, 8}, 3, 9, "between semicolons, a header"},
    {"wine quality, a class for each quality",
     "\"fixed acidity\";\"pH\";\"quality\"\n7.4;3.51;5\n7.8;3.2;3\n7;3.1;8\n",
     "", 2, 3, {{7.4f, 3.51f}, 1}, {{7.0f, 3.1f}, 2}, 3, 3, "class 0 is label 3"},
    {"iris", "5.1,3.5,1.4,0.2,Iris-setosa\n7.0,3.2,4.7,1.4,Iris-versicolor\n"
             "6.3,3.3,6.0,2.5,Iris-virginica\n\n",
     "", 4, 3, {{5.1f, 3.5f, 1.4f, 0.2f}, 0}, {{6.3f, 3.3f, 6.0f, 2.5f}, 2}, 3, 3,
     "0 is Iris-setosa, 2 is Iris-virginica"},
    {"iris with names", "sepal_length,sepal_width,species\n5.1,3.5,virginica\n6,2,setosa\n",
     "", 2, 2, {{5.1f, 3.5f}, 1}, {{6.0f, 2.0f}, 0}, 2, 2, "label in column 3 \"species\""},
    {"wheat seeds", "15.26\t14.84\t0.871\t1\n14.88\t14.57\t\t0.8811\t2\n14.29\t14.09\t0.9\t3\n",
     "", 3, 3, {{15.26f, 14.84f, 0.871f}, 0}, {{14.29f, 14.09f, 0.9f}, 2}, 3, 3,
     "labels go from 1 to 3"},
    {"credit card fraud", "\"Time\",\"V1\",\"Amount\",\"Class\"\n0,-1.359,149.62,\"0\"\n"
                          "1,1.19,2.69,\"1\"\n",
     "", 3, 2, {{0.0f, -1.359f, 149.62f}, 0}, {{1.0f, 1.19f, 2.69f}, 1}, 2, 2,
     "label in column 4 \"Class\""},
    {"digits of a contest", "label,pixel0,pixel1\n1,0,255\n0,7,0\n4,1,0\n", "", 2, 10,
     {{0.0f, 255.0f}, 1}, {{1.0f, 0.0f}, 4}, 3, 5, "label in column 1 \"label\""},
    {"digits, label first, no header", "3,0,7,0\n1,9,255,0\n1,8,0,0\n3,1,1,0\n", "", 3, 10,
     {{0.0f, 7.0f, 0.0f}, 3}, {{1.0f, 1.0f, 0.0f}, 3}, 4, 4, "the last column has one value only"},
    {"sonar", "0.02,0.0371,R\n0.0453,0.0523,M\n0.1,0.2,R\n", "", 2, 2, {{0.02f, 0.0371f}, 1},
     {{0.1f, 0.2f}, 1}, 3, 2, "0 is M, 1 is R"},
    {"ECG", "-1.1252183e-01,-2.8272038e+00,1.0000000e+00\n-7.3e-01,6.1e-01,0.0000000e+00\n",
     "", 2, 2, {{-1.1252183e-01f, -2.8272038e+00f}, 1}, {{-7.3e-01f, 6.1e-01f}, 0}, 2, 2,
     "no header"},
    {"spambase", "0,0.64,278,1\n0.21,0.28,1028,1\n0.3,0,61,0\n", "", 3, 2,
     {{0.0f, 0.64f, 278.0f}, 1}, {{0.3f, 0.0f, 61.0f}, 0}, 3, 2, "scale=standard"},
    {"breast cancer without a header", "1000025,5,1,2\n1002945,5,4,4\n1015425,3,1,2\n"
                                       "1016277,6,8,4\n", "", 2, 2, {{5.0f, 1.0f}, 0},
     {{6.0f, 8.0f}, 1}, 4, 2, "its numbers are all different"},
    {"breast cancer", "id,diagnosis,radius,texture\n842302,M,17.9,10.3\n84,B,20.5,17.7\n", "", 2, 2,
     {{17.9f, 10.3f}, 1}, {{20.5f, 17.7f}, 0}, 2, 2, "numbers the samples"},
};

static const struct form writers[] = {
    {"pandas without names", "0,1,2,3\n0.5,1.5,2.5,1\n1,2,3,0\n", "", 3, 2,
     {{0.5f, 1.5f, 2.5f}, 1}, {{1.0f, 2.0f, 3.0f}, 0}, 2, 2, "counts 0, 1, 2"},
    {"pandas with its index", ",a,b,y\n0,0.5,1.5,1\n1,2.5,3.5,0\n", "", 2, 2,
     {{0.5f, 1.5f}, 1}, {{2.5f, 3.5f}, 0}, 2, 2, "column 1 is left out"},
    {"pandas with two indices", ",Unnamed: 0.1,Unnamed: 0,a,b,y\n4,4,0,<NA>,1.5,1\n5,5,1,2,3.5,0\n",
     ",missing=mean", 2, 2, {{2.0f, 1.5f}, 1}, {{2.0f, 3.5f}, 0}, 2, 2,
     "column 3 \"Unnamed: 0\" is left out"},
    {"R's write.csv", "\"\",\"a\",\"b\",\"y\"\n\"1\",0.5,1.5,\"u\"\n\"2\",2.5,3.5,\"v\"\n", "", 2,
     2, {{0.5f, 1.5f}, 0}, {{2.5f, 3.5f}, 1}, 2, 2, "column 1 is left out"},
    {"R's write.table", "\"a\" \"b\" \"y\"\n\"1\" 0.5 1.5 0\n\"2\" 2.5 3.5 1\n", "", 2, 2,
     {{0.5f, 1.5f}, 0}, {{2.5f, 3.5f}, 1}, 2, 2, "between blanks, a header"},
    {"decimal commas", "a;b;klasse\n1,5;2,25;0\n-3,5;4e2;1\n", "", 2, 2, {{1.5f, 2.25f}, 0},
     {{-3.5f, 400.0f}, 1}, 2, 2, "between semicolons"},
    {"title and units", "Sensor 4, exported\nax,ay,label\ng,g,\n0.5,1.5,1\n2,3,0\n4,5,0\n1,1,1\n",
     "", 2, 2, {{0.5f, 1.5f}, 1}, {{1.0f, 1.0f}, 1}, 4, 2, "a header of 3 lines"},
    {"comments, a mark and ends of lines", "\xef\xbb\xbf# a set\r\n1,2,0\r\n# more\r\n3,4,1\r\n",
     "", 2, 2, {{1.0f, 2.0f}, 0}, {{3.0f, 4.0f}, 1}, 2, 2, "2 lines of 3 columns"},
    {"one column a class", "1,2,0,1,0\n3,4,1,0,0\n5,6,0,0,1\n", "", 2, 3, {{1.0f, 2.0f}, 1},
     {{5.0f, 6.0f}, 2}, 3, 3, "one column a class"},
    {"a delimiter at the end", "1,2,0,\n3,4,1,\n", "", 2, 2, {{1.0f, 2.0f}, 0},
     {{3.0f, 4.0f}, 1}, 2, 2, "it is empty"},
    {"names of which most are years", "id,2019,2020,2021,y\n7,1,5,2,0\n3,4,4,9,1\n8,3,1,6,0\n",
     ",drop=id", 3, 2, {{1.0f, 5.0f, 2.0f}, 0}, {{3.0f, 1.0f, 6.0f}, 0}, 3, 2, "a header"},
    {"names of which some are numbers", "a,b,2019,y\n7,1,5,0\n3,4,4,1\n8,3,1,0\n", "", 3, 2,
     {{7.0f, 1.0f, 5.0f}, 0}, {{8.0f, 3.0f, 1.0f}, 0}, 3, 2, "a header"},
    {"sizes and classes in front", "4,2,setosa,virginica\n1,3,2,0\n4,1,9,1\n2,2,7,0\n9,1,1,1\n",
     "", 3, 2, {{1.0f, 3.0f, 2.0f}, 0}, {{9.0f, 1.0f, 1.0f}, 1}, 4, 2, "a header"},
    {"dates as names", "x,1/22/20,1/23/20,y\n7,1,5,0\n3,4,4,1\n8,3,1,0\n", "", 3, 2,
     {{7.0f, 1.0f, 5.0f}, 0}, {{8.0f, 3.0f, 1.0f}, 0}, 3, 2, "a header"},
    {"ends of lines of old", "a,b,y\r1,2,0\r3,4,1\r", "", 2, 2, {{1.0f, 2.0f}, 0},
     {{3.0f, 4.0f}, 1}, 2, 2, "2 lines of 3 columns between commas, a header"},
    {"breaks of lines between quotes", "a,\"b\nin mm\",y\n1,2,\"on\ntop\"\n3,4,\"a \"\"b\"\"\"\n",
     "", 2, 2, {{1.0f, 2.0f}, 1}, {{3.0f, 4.0f}, 0}, 2, 2, "2 lines of 3 columns"},
    {"minus one", "1,2,-1\n3,4,1\n5,6,1\n", "", 2, 2, {{1.0f, 2.0f}, 0}, {{5.0f, 6.0f}, 1}, 3, 2,
     "class 0 is label -1"},
    {"LIBSVM's sparse lines", "+1 1:0.5 3:-2 # a comment\n\n-1 2:4\r\n+1\t3:1e1 ", "", 3, 2,
     {{0.5f, 0.0f, -2.0f}, 1}, {{0.0f, 0.0f, 10.0f}, 1}, 3, 2, "indices from 1 to 3, 3 features"},
    {"sparse lines without their label", "1 1:1 2:2\n2 2:5\n", ",label=none", 2, 2,
     {{1.0f, 2.0f}, 0}, {{0.0f, 5.0f}, 0}, 2, 2, "indices from 1 to 2, 2 features"},
    {"sparse lines from 0, without the last feature", "0 0:1 1:2\n2 1:5\n", "", 3, 3,
     {{1.0f, 2.0f, 0.0f}, 0}, {{0.0f, 5.0f, 0.0f}, 2}, 2, 3, "indices from 0 to 1, 3 features"},
    {"a row's number and a time in front", "\"date\",\"a\",\"b\",\"used\"\n"
     "\"1\",\"2015-02-04 17:51:00\",23,0,1\n\"2\",\"2015-02-04 17:51:59\",24,1,0\n"
     "\"3\",\"2015-02-04 17:53:00\",25,7,1\n\"4\",\"2015-02-04 17:53:00\",25,7,0\n", ",drop=date",
     2, 1, {{23.0f, 0.0f}, 1}, {{25.0f, 7.0f}, 0}, 4, 2, "label in column 5"},
    {"tens", "1,2,10\n3,4,0\n5,6,20\n", "", 2, 3, {{1.0f, 2.0f}, 1}, {{5.0f, 6.0f}, 2}, 3, 3,
     "class 0 is label 0"},
    {"some of the classes", "1,2,1\n3,4,2\n", "", 2, 4, {{1.0f, 2.0f}, 1}, {{3.0f, 4.0f}, 2}, 2, 3,
     "labels 1 to 2 are classes 1 to 2 of the model's 4"},
};

static void test_table_of_a_public_set_is_read_without_an_option(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof public_sets / sizeof public_sets[0]; i++) {
        expect_form(&public_sets[i]);
    }
}

static void test_table_is_read_as_programs_write_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof writers / sizeof writers[0]; i++) {
        expect_form(&writers[i]);
    }
}

/* A first sample that has a cell too many for a number is none of the header, and is refused as any
 * other line is, by line and column; in a column of the label it is a label. */
static void test_table_first_sample_with_an_odd_cell_is_no_header(void **state)
{
    static const char *const odd[] = {"inf", "-Infinity", "1e39", "1e400", "-", "0x10", "10%", "$3",
                                      "12:30", "2026-01-02", "\"1,000\"", "1D-3", "abc", "1.2.3"};
    static const char *const headers[] = {"", "a,b,c,y\n"};
    char text[200], place[40];
    (void)state;
    for (size_t i = 0; i < 2 * sizeof odd / sizeof odd[0]; i++) {
        const char *header = headers[i % 2];
        snprintf(text, sizeof text, "%s1.5,%s,2,0\n2.5,3,4,1\n3.5,4,1,0\n4,7,7,1\n", header,
                 odd[i / 2]);
        snprintf(place, sizeof place, ":%d:%d: \"", header[0] != '\0' ? 2 : 1,
                 odd[i / 2][0] == '"' ? 6 : 5);
        write_text("a.csv", text);
        print_message("%s", text);
        expect_refused(csv(",test=0"), NULL, UW_ERR_CORRUPT, place);
    }
    write_text("a.csv", "x,\"y\nz\",label\n1,2,\"o\n\nk\"\n2,w,n\n3,4,n\n3,5,n\n");
    expect_refused(csv(",test=0"), NULL, UW_ERR_CORRUPT, ":6:3: \"w\": not a number");
    write_text("a.csv", "x,label\nabc,0\n2.5,1\n3.5,0\n");
    expect_refused(csv(",test=0"), NULL, UW_ERR_CORRUPT, ":2:1: \"abc\": not a number");
    write_text("a.csv", "5.1,3.5,1.4,setosa\n5.1,3.5,1.4,0.2,setosa\n7,3,4,1,virginica\n");
    expect_refused(csv(",test=0"), NULL, UW_ERR_CORRUPT, ":1:1: 4 cells between commas");
}

static void test_table_options_decide(void **state)
{
    (void)state;
    static const struct form forms[] = {
        {"label first", "1,5,7\n0,6,8\n", ",label=first", 2, 2, {{5.0f, 7.0f}, 1},
         {{6.0f, 8.0f}, 0}, 2, 2, "label in column 1"},
        {"label last, behind it nothing", "5,7,1,\n6,8,0,\n", ",label=last", 2, 2,
         {{5.0f, 7.0f}, 1}, {{6.0f, 8.0f}, 0}, 2, 2, "label in column 3"},
        {"label by name", "a,kind,b\n5,1,7\n6,0,8\n", ",label=KIND", 2, 2, {{5.0f, 7.0f}, 1},
         {{6.0f, 8.0f}, 0}, 2, 2, "label in column 2 \"kind\""},
        {"label by number", "5,1,7\n6,0,8\n", ",label=2", 2, 2, {{5.0f, 7.0f}, 1},
         {{6.0f, 8.0f}, 0}, 2, 2, "label in column 2"},
        {"label in several columns", "x,a,b,y\n5,0,1,9\n6,1,0,8\n", ",label=a+b", 2, 2,
         {{5.0f, 9.0f}, 1}, {{6.0f, 8.0f}, 0}, 2, 2, "label from column 2 \"a\" to column 3"},
        {"classes", "5,x\n6,z\n", ",classes=z+y+x", 1, 3, {{5.0f}, 2}, {{6.0f}, 0}, 2, 3,
         "3 classes: z (1), y (0), x (1)"},
        {"drop", "a,b,c,y\n1,2,3,0\n4,5,6,1\n", ",drop=a+c", 1, 2, {{2.0f}, 0}, {{5.0f}, 1}, 2, 2,
         "1 feature: b"},
        {"scale 255", "0,255,0\n51,102,1\n", ",scale=255", 2, 2, {{0.0f, 1.0f}, 0},
         {{51.0f * (1.0f / 255.0f), 102.0f * (1.0f / 255.0f)}, 1}, 2, 2, "divided by 255"},
        {"scale standard", "1,5,0\n3,5,1\n", ",scale=standard", 2, 2, {{-1.0f, 0.0f}, 0},
         {{1.0f, 0.0f}, 1}, 2, 2, "mean 0 and deviation 1"},
        {"missing mean", "1,7,0\n3,9,0\n?,8,1\n", ",missing=mean", 2, 2, {{1.0f, 7.0f}, 0},
         {{2.0f, 8.0f}, 1}, 3, 2, "1 values are missing and get the mean of their column"},
        {"missing drop", "1,7,0\nNA,8,1\n3,9,0\n", ",missing=drop", 2, 2, {{1.0f, 7.0f}, 0},
         {{3.0f, 9.0f}, 0}, 2, 2, "1 of 3 lines"},
        {"missing drop, of words", "1,7,u\n2,8,?\n3,9,v\n", ",missing=drop", 2, 2,
         {{1.0f, 7.0f}, 0}, {{3.0f, 9.0f}, 1}, 2, 2, "1 of 3 lines"},
        {"delimiter and skip", "9,9|9|9\n1|2|0\n3|4|1\n", ",delimiter=|,skip=1", 2, 2,
         {{1.0f, 2.0f}, 0}, {{3.0f, 4.0f}, 1}, 2, 2, "the character |"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        expect_form(&forms[i]);
    }
}

static void test_table_options_that_are_wrong_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        int code;
        const char *part;
    } bad[] = {
        {",lable=first", UW_ERR_INVALID, "no option lable="},
        {",classes=0+1+0", UW_ERR_INVALID, "classes=0+1+0: names \"0\" twice"},
        {",label=kind", UW_ERR_INVALID, "has no such column"},
        {",drop=9", UW_ERR_INVALID, "has no such column"},
        {",label=last,target=1", UW_ERR_INVALID, "give one of them"},
        {",scale=2", UW_ERR_INVALID, "scale=2: needs none, 255 or standard"},
        {",missing=zero", UW_ERR_INVALID, "missing=zero: needs refuse, mean or drop"},
        {",test=1.5", UW_ERR_INVALID, "test=1.5: needs"},
        {",skip=-1", UW_ERR_INVALID, "skip=-1: needs a number of lines"},
        {",delimiter=ab", UW_ERR_INVALID, "delimiter=ab: needs"},
        {",classes=3+4", UW_ERR_CORRUPT, "\"0\" is none of the 2 classes, 3 to 4"},
        {",test-labels=x", UW_ERR_INVALID, "needs test=FILE"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_text("a.csv", "1,2,0\n3,4,1\n");
        expect_error(csv(bad[i].options), bad[i].code, bad[i].part);
    }
}

static void test_table_that_cannot_be_read_says_what_helps(void **state)
{
    (void)state;
    static const struct {
        const char *text, *options, *part;
    } bad[] = {
        {"1 1:2\n0 1:1\n1 1:1\n1 1:1\n1 1:1\n1 1:a\n", "",
         "a.csv:6:5: \"a\": a line has a label"},
        {"1 1:2\n0 1048577:1\n", "", "a.csv:2:3: \"1048577:1\": indices go up to 1048576"},
        {"1 1:2\n0 1:1\n", ",drop=1", "label=, labels=, target= and drop= name no columns"},
        {"a,b,c,d,e,y\nx,1,u,2,3,0\ny,2,v,4,5,1\nx,3,w,6,7,1\nz,3,w,8,9,0\n", ",label=y",
         "drop=1+3 leaves them out"},
        {"1,a,b,c,d,e,f,g,h,i,j,k,l,m,n,1\n2,a,b,c,d,e,f,g,h,i,j,k,l,m,n,0\n", ",label=16",
         "drop=2+3+4+5+6+7+8+9+10+11+12+13+... (14 columns) leaves them out"},
        {"day,a,b,c,d,y\n2020-01-01,1,1,1,1,0\n2020-01-02,2,2,2,2,1\n2020-01-03,3,3,4,3,0\n", "",
         "column 1 \"day\" holds dates or times, features are numbers, as days since the first one "
         "are: drop=1"},
        {"a,b,y\n12 V,1,0\n1.2 V,2,1\n7 V,3,0\n", ",label=y", "column 1 \"a\" holds words"},
        {"1,2,7,0\n3,-,7,1\n5,6,7,1\n", "", "a.csv:2:3: \"-\": not a number; a gap is an empty"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct uw_data d;
        struct uw_error err = {.text = ""};
        write_text("a.csv", bad[i].text);
        int rc = uw_data_open(&d, csv(bad[i].options),
                              &(struct uw_data_config){.channels = 3, .outputs = 2}, &err);
        if (rc >= 0 || strstr(err.text, bad[i].part) == NULL) {
            fail_msg("case %zu gives %d: %s", i, rc, err.text);
        }
    }
}

/* Where indices count from 0 is what the training data says, of the test file and of later ones. */
static void test_table_indices_count_from_where_training_did(void **state)
{
    (void)state;
    struct uw_data_config config = {.channels = 3, .outputs = 2, .test = true};
    char two[400];
    write_text("a.csv", "1 0:1 1:2\n0 2:3\n");
    write_text("b.csv", "1 1:5\n0 2:7\n");
    snprintf(two, sizeof two, "csv:%s,test=%s", at("a.csv"), at("b.csv"));
    struct uw_data first = open_good(two, &config);
    expect_sample(&first, 0, (float[]){0.0f, 5.0f, 0.0f}, 1);
    const struct uw_data_columns *c = uw_data_columns(&first);
    assert_int_equal(c->indices_from, '0');
    config.like = c;
    snprintf(two, sizeof two, "csv:%s,test=0", at("b.csv"));
    struct uw_data later = open_good(two, &config);
    expect_sample(&later, 1, (float[]){0.0f, 0.0f, 7.0f}, 0);
    uw_data_close(&later);
    uw_data_close(&first);
    snprintf(two, sizeof two, "csv:%s,test=%s", at("b.csv"), at("a.csv"));
    config.like = NULL;
    expect_refused(two, &config, UW_ERR_CORRUPT,
                   "a.csv:1:3: \"0:1\": indices of the training data count from 1");
}

/* 1024 lines of 1048576 features and a label are more than fit. */
static void test_table_of_too_many_zeros_is_refused(void **state)
{
    (void)state;
    char text[1024 * 6 + 16] = "1 1048576:1\n";
    for (int i = 1; i < 1024; i++) {
        strcat(text, "0 1:1\n");
    }
    write_text("a.csv", text);
    expect_error(csv(""), UW_ERR_TOOBIG, "1024 lines of 1048577 numbers, zeros too, are");
}

/* Names as they are written before names of another case; an option that means two is refused. */
static void test_table_columns_of_one_name_are_told_apart(void **state)
{
    (void)state;
    static const struct uw_data_config two = {.channels = 2, .outputs = 2};
    static char *names[] = {"a", "A"};
    static const struct uw_data_columns like = {.features_n = 2, .features = names};
    write_text("a.csv", "A,a,y,b,b\n7,1,0,1,2\n9,0,1,3,4\n");
    expect_error(csv(",label=b"), UW_ERR_INVALID, "label=b: columns 4 and 5 of");
    expect_error(csv(",target=B"), UW_ERR_INVALID, "target=B: columns 4 and 5 of");
    expect_error(csv(",drop=b"), UW_ERR_INVALID, "drop=b: columns 4 and 5 of");
    struct uw_data d = open_good(csv(",label=a,drop=4+5,test=0"), &two);
    expect_sample(&d, 0, (float[]){7.0f, 0.0f}, 1);
    uw_data_close(&d);
    d = open_good(csv(",label=y,test=0"), &(struct uw_data_config){.like = &like});
    expect_sample(&d, 1, (float[]){0.0f, 9.0f}, 1);
    uw_data_close(&d);
}

/* Numbers that are the same as floats are different labels. */
static void test_table_large_labels_are_told_apart(void **state)
{
    (void)state;
    write_text("a.csv", "1,16777216\n2,16777217\n3,16777217\n");
    struct uw_data d = open_good(csv(",label=2,test=0"), NULL);
    const struct uw_data_columns *c = uw_data_columns(&d);
    assert_int_equal(c->classes_n, 2);
    assert_string_equal(c->classes[1], "16777217");
    expect_sample(&d, 0, (float[]){1.0f}, 0);
    expect_sample(&d, 2, (float[]){3.0f}, 1);
    write_text("a.csv", "1,16777217\n");
    struct uw_data later = open_good(csv(",label=2,test=0"), &(struct uw_data_config){.like = c});
    expect_sample(&later, 0, (float[]){1.0f}, 1);
    uw_data_close(&later);
    write_text("a.csv", "1,16777217\n2,16777218\n");
    expect_refused(csv(",label=2,test=0"), &(struct uw_data_config){.like = c}, UW_ERR_CORRUPT,
                   "a.csv:2: column 2: \"16777218\" is none of the 2 classes");
    uw_data_close(&d);
}

static void test_table_labels_may_be_in_a_file_of_their_own(void **state)
{
    (void)state;
    char options[600];
    const struct uw_data_config train = {.channels = 2, .outputs = 6};
    const struct uw_data_config test = {.channels = 2, .outputs = 6, .test = true};
    struct uw_error err;
    write_text("a.csv", "  2.5e-001 -1.0e+000\n  3.0e-001  4.0e+000\n  1 2\n");
    write_text("y.txt", "5\n6\n1\n");
    snprintf(options, sizeof options, ",labels=%s,test=0", at("y.txt"));
    struct uw_data d = open_good(csv(options), &train);
    expect_sample(&d, 0, (float[]){0.25f, -1.0f}, 4);
    expect_sample(&d, 2, (float[]){1.0f, 2.0f}, 0);
    uw_data_close(&d);
    write_text("y.txt", "5\n6\n");
    expect_error(csv(options), UW_ERR_MISMATCH, "has 2 labels");
    assert_int_equal(uw_data_open(&d, csv(""), &train, &err), UW_ERR_MISMATCH);
    assert_non_null(strstr(err.text, "labels=FILE"));
    write_text("y.txt", "5\n6\n1\n");
    write_text("b.csv", "7 8\n");
    write_text("z.txt", "2\n");
    snprintf(options, sizeof options, ",labels=%s,test=%s,test-labels=%s", at("y.txt"),
             at("b.csv"), at("z.txt"));
    d = open_good(csv(options), &test);
    expect_sample(&d, 0, (float[]){7.0f, 8.0f}, 1);
    expect_told(&d, "1 classes that training never sees, as 2");
    uw_data_close(&d);
}

/* ---- values ---- */

static void test_table_values_are_targets(void **state)
{
    (void)state;
    static const struct {
        const char *text, *options;
        struct uw_data_config config;
        uint32_t targets_n;
        float x[2], value[2];
    } good[] = {
        {" 0.00632  18.00   24.00\n 0.02731   0.00  21.60\n", ",test=0", /* housing */
         {.channels = 2, .outputs = 1}, 1, {0.00632f, 18.0f}, {24.0f}},
        {"1,2,0\n3,4,2\n5,6,1\n", ",test=0", {.channels = 2, .outputs = 1}, 1, {1.0f, 2.0f},
         {0.0f}},
        {"1,2,0\n3,4,1\n", ",test=0", {.channels = 2, .outputs = 1, .wanted = UW_DATA_WANT_VALUES},
         1, {1.0f, 2.0f}, {0.0f}},
        {"a,price,b\n1,9.5,2\n3,4,1\n", ",test=0,target=price", {.channels = 2, .outputs = 1}, 1,
         {1.0f, 2.0f}, {9.5f}},
        {"1,2,7,8\n3,4,9,10\n", ",test=0", {.channels = 2, .outputs = 2}, 2, {1.0f, 2.0f},
         {7.0f, 8.0f}},
        {"p,a,q,b\n7,1,8,2\n9,3,10,4\n", ",test=0,target=p+q", {.channels = 2, .outputs = 2}, 2,
         {1.0f, 2.0f}, {7.0f, 8.0f}},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        write_text("a.csv", good[i].text);
        struct uw_data d = open_good(csv(good[i].options), &good[i].config);
        assert_int_equal(d.base->targets_n, good[i].targets_n);
        assert_null(uw_data_columns(&d)->classes);
        expect_sample(&d, 0, good[i].x, 0);
        expect_values(&d, 0, good[i].value);
        uw_data_close(&d);
    }
}

/* Mean 30 and deviation 10, of two values. */
static void test_table_values_far_from_1_are_scaled(void **state)
{
    (void)state;
    static const struct {
        const char *text, *options;
        bool fresh;
        float value, mean, inverse; /* 0, 0: no scale */
        const char *told;
    } good[] = {
        {"1,20\n2,40\n", "", true, -1.0f, 30.0f, 0.1f, "minus 30 and divided by 10: losses are "
         "those of scaled values, answers are in the table's units; target-scale=none leaves"},
        {"1,20\n2,40\n", "", false, 20.0f, 0.0f, 0.0f, "target-scale=standard gives them mean 0"},
        {"1,20\n2,40\n", ",target-scale=none", true, 20.0f, 0.0f, 0.0f, "value in column 2"},
        {"1,20\n2,40\n", ",target-scale=standard", false, -1.0f, 30.0f, 0.1f, "divided by 10"},
        {"1,20\n2,40\n", ",target-scale=40", true, 0.5f, 0.0f, 1.0f / 40.0f, "divided by 40: "},
        {"1,20\n2,20\n", "", true, 0.0f, 20.0f, 1.0f, "minus 20 and divided by 1: "},
        {"1,0.01\n2,0.03\n", "", true, -1.0f, 0.02f, 100.0f, "minus 0.02 and divided by 0.01: "},
        {"1,0.5\n2,2.5\n", "", true, 0.5f, 0.0f, 0.0f, "value in column 2"},
        {"1,0\n2,1\n", "", true, 0.0f, 0.0f, 0.0f, "value in column 2"},
    };
    char options[80];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        float got;
        print_message("row %zu\n", i);
        write_text("a.csv", good[i].text);
        snprintf(options, sizeof options, ",test=0%s", good[i].options);
        struct uw_data d = open_good(
            csv(options), &(struct uw_data_config){.outputs = 1, .channels = 1,
                                                    .wanted = UW_DATA_WANT_VALUES,
                                                    .scale_values = good[i].fresh});
        const struct uw_data_columns *c = uw_data_columns(&d);
        assert_int_equal(d.base->ops->read_target(d.base, 0, &got), UW_OK);
        assert_true(fabsf(got - good[i].value) < 1e-6f);
        assert_int_equal(c->target_mean != NULL, good[i].inverse != 0.0f);
        if (good[i].inverse != 0.0f) {
            assert_true(c->target_mean[0] == good[i].mean);
            assert_true(fabsf(c->target_inverse[0] - good[i].inverse) < 1e-6f * good[i].inverse);
        }
        expect_told(&d, good[i].told);
        uw_data_close(&d);
    }
    expect_error(csv(",target-scale=0"), UW_ERR_INVALID, "needs none, standard or a number");
    expect_error(csv(",target-scale=big"), UW_ERR_INVALID, "needs none, standard or a number");
    write_text("a.csv", "1,a\n2,b\n");
    expect_error(csv(",target-scale=2"), UW_ERR_INVALID, "target=NAME names their column");
}

/* Later values have the scale that the weights are for, in a table and in memory. */
static void test_table_scale_of_values_is_used_again(void **state)
{
    (void)state;
    struct uw_data_config config = {.outputs = 2, .channels = 1, .scale_values = true};
    float got[2];
    write_text("a.csv", "1,20,0.5\n2,40,1.5\n");
    struct uw_data first = open_good(csv(",test=0"), &config);
    expect_values(&first, 1, (float[]){1.0f, 1.0f});
    config.like = uw_data_columns(&first);
    config.scale_values = false;
    config.leave_values = true;         /* though some of them may be classes */
    write_text("a.csv", "1,50,0.5\n");
    struct uw_data d = open_good(csv(",test=0"), &config);
    expect_values(&d, 0, (float[]){2.0f, -1.0f});
    expect_told(&d, "values are scaled as in training");
    uw_data_close(&d);
    d = open_good(csv(",test=0,target-scale=none"), &config);
    expect_values(&d, 0, (float[]){50.0f, 0.5f});
    expect_told(&d, "WARNING: the model was trained on values of another scale");
    uw_data_close(&d);
    const float x = 1.0f, y[2] = {50.0f, 0.5f};
    const struct uw_data_arrays arrays = {.x = &x, .y = y, .samples_n = 1, .channels = 1,
                                          .height = 1, .width = 1, .y_n = 2};
    config.train = &arrays;
    config.wanted = UW_DATA_WANT_VALUES;
    d = open_good("arrays", &config);
    assert_int_equal(d.base->ops->read(d.base, 0, got, &(uint32_t){0}), UW_OK);
    assert_true(got[0] == 1.0f);
    expect_values(&d, 0, (float[]){2.0f, -1.0f});
    uw_data_close(&d);
    uw_data_close(&first);
}

static void test_table_values_follow_parts_and_the_loader(void **state)
{
    (void)state;
    const struct uw_data_config odd = {.channels = 1, .outputs = 1, .shard = 1, .shards_n = 2};
    struct uw_loader loader;
    float x[3], target[3];
    uint32_t label[3];
    write_text("a.csv", "1,0.1\n2,0.2\n3,0.3\n4,0.4\n5,0.5\n");
    struct uw_data d = open_good(csv(",test=0"), &odd);
    struct uw_loader_config config = {.dataset = d.base, .batch_n = 3, .no_shuffle = true};
    assert_int_equal(uw_loader_init(&loader, &config), UW_OK);
    assert_int_equal(uw_loader_next(&loader, x, label, target), 2);
    assert_true(x[0] == 2.0f && target[0] == 0.2f && x[1] == 4.0f && target[1] == 0.4f);
    uw_data_close(&d);
    write_text("a.csv", "1,1\n2,0\n"); /* labels are values where one output wants them */
    d = open_good(csv(",test=0"), NULL);
    config.dataset = d.base;
    assert_int_equal(uw_loader_init(&loader, &config), UW_OK);
    assert_int_equal(uw_loader_next(&loader, x, label, target), 2);
    assert_true(target[0] == 1.0f && target[1] == 0.0f);
    uw_data_close(&d);
}

static void test_table_without_a_label_is_for_an_autoencoder(void **state)
{
    (void)state;
    const struct uw_data_config twin = {.channels = 2, .outputs = 2};
    const struct uw_data_config itself = {.channels = 1, .outputs = 1,
                                          .wanted = UW_DATA_WANT_NOTHING};
    write_text("a.csv", "a,b\n1,2.5\n3,4\n");
    struct uw_data d = open_good(csv(""), &twin);
    assert_int_equal(d.base->channels, 2);
    assert_null(uw_data_columns(&d)->classes);
    uw_data_close(&d);
    d = open_good(csv(""), &itself);
    expect_told(&d, "column 2 \"b\" is not used");
    uw_data_close(&d);
    d = open_good(csv(",label=none"), NULL);
    assert_int_equal(d.base->channels, 2);
    uw_data_close(&d);
}

/* ---- what is kept and told ---- */

static void test_table_columns_are_kept_and_used_again(void **state)
{
    (void)state;
    write_text("a.csv", "len,wid,kind\n1,5,pear\n3,7,apple\n1,5,pear\n3,7,apple\n");
    struct uw_data d = open_good(csv(",scale=standard,test=0"), NULL);
    const struct uw_data_columns *c = uw_data_columns(&d);
    assert_string_equal(c->features[1], "wid");
    assert_string_equal(c->classes[0], "apple");
    assert_string_equal(c->classes[1], "pear");
    assert_int_equal(c->counts[0], 2);
    assert_true(c->mean[0] == 2.0f && c->mean[1] == 6.0f && c->inverse[0] == 1.0f);
    expect_told(&d, "2 of 4 lines repeat another one");
    write_text("a.csv", "len,wid,kind\n9,9,pear\n");
    struct uw_data later = open_good(csv(",test=0"), &(struct uw_data_config){.like = c});
    expect_sample(&later, 0, (float[]){7.0f, 3.0f}, 1);
    uw_data_close(&later);
    uw_data_close(&d);
    d = open_good("digits", NULL);
    assert_null(uw_data_columns(&d));
    assert_null(uw_data_note(&d, 0));
    uw_data_close(&d);
}

/* The label is the column of the same name, wherever it is; label= decides otherwise. */
/* Of several outputs some values are classes: they have no scale, and are checked. */
static void test_table_values_may_be_classes(void **state)
{
    (void)state;
    static const uint32_t classes[] = {3, 0};
    const struct uw_data_config config = {.channels = 1, .outputs = 2, .classes = classes,
                                          .classes_n = 2, .wanted = UW_DATA_WANT_VALUES,
                                          .leave_values = true};
    write_text("a.csv", "x,kind,price\n1,0,100\n2,2,300\n3,-1,200\n");
    struct uw_data d = open_good(csv(",test=0,target-scale=100"), &config);
    expect_values(&d, 0, (float[]){0.0f, 1.0f});
    expect_values(&d, 1, (float[]){2.0f, 3.0f});
    expect_told(&d, "the one in column 3 \"price\" divided by 100");
    uw_data_close(&d);
    d = open_good(csv(",test=0,target-scale=standard"), &config);
    expect_values(&d, 2, (float[]){-1.0f, 0.0f});
    expect_told(&d, "the one in column 3 \"price\" minus 200");
    uw_data_close(&d);
    write_text("a.csv", "x,kind,price\n1,1,100\n2,2,300\n3,3,200\n");
    expect_refused(csv(",test=0"), &config, UW_ERR_CORRUPT, "a.csv:4: column 2 \"kind\" has 3, "
                   "where the model has classes 0 to 2; classes are counted from 0");
}

static void test_table_missing_label_is_no_gap_to_fill(void **state)
{
    (void)state;
    write_text("a.csv", "1,7,u\n2,8,\n3,9,v\n");
    expect_refused(csv(",test=0"), NULL, UW_ERR_CORRUPT, "column 3 is missing; it is what the "
                   "model learns: missing=drop leaves such lines out, missing=mean too");
}

static void test_table_label_is_found_by_its_name_again(void **state)
{
    (void)state;
    struct uw_data_config config = {.outputs = 2, .channels = 2};
    write_text("a.csv", "a,b,wet,class\n1,5,0,1\n2,6,1,1\n3,7,0,0\n4,8,1,0\n");
    struct uw_data first = open_good(csv(",label=wet,drop=class,test=0"), &config);
    const struct uw_data_columns *c = uw_data_columns(&first);
    assert_string_equal(c->label, "wet");
    config.like = c;
    struct uw_data d = open_good(csv(",test=0"), &config);
    expect_sample(&d, 1, (float[]){2.0f, 6.0f}, 1);
    expect_sample(&d, 2, (float[]){3.0f, 7.0f}, 0);
    expect_told(&d, "the label is column 3 \"wet\", as in the training data");
    uw_data_close(&d);
    d = open_good(csv(",label=class,test=0"), &config);
    expect_sample(&d, 2, (float[]){3.0f, 7.0f}, 0);
    expect_sample(&d, 3, (float[]){4.0f, 8.0f}, 0);
    uw_data_close(&d);
    d = open_good(csv(",drop=wet,test=0"), &config);
    expect_sample(&d, 3, (float[]){4.0f, 8.0f}, 0);
    uw_data_close(&d);
    write_text("a.csv", "a,b,damp,class\n1,5,0,1\n2,6,1,1\n3,7,0,0\n4,8,1,0\n");
    d = open_good(csv(",label=damp,test=0"), &config);
    expect_sample(&d, 3, (float[]){4.0f, 8.0f}, 1);
    uw_data_close(&d);
    expect_refused(csv(",test=0"), &config, UW_ERR_MISMATCH, "no column \"wet\", the training");
    config.asks = true;
    d = open_good(csv(""), &config);
    assert_int_equal(d.base->samples_n, 4);
    expect_told(&d, "no label");
    uw_data_close(&d);
    uw_data_close(&first);
}

/* A scale is advised for weights that nobody has trained, and not for numbers of tokens. */
static void test_table_scale_is_advised_where_it_helps(void **state)
{
    (void)state;
    static const struct {
        enum uw_data_advice advice;
        bool tokens;
        const char *features, *values;      /* NULL: nothing of the kind */
    } cases[] = {
        {UW_DATA_ADVISES, false, "WARNING: features go from 1 to 900", "WARNING: the values in"},
        {UW_DATA_ADVISES, true, NULL, "WARNING: the values in"},
        {UW_DATA_ADVISES_NEW, false, "scale=standard is for a model that nobody has trained; wei",
         "target-scale=standard is for a model that nobody has trained"},
        {UW_DATA_ADVISES_NOTHING, false, NULL, NULL},
    };
    write_text("a.csv", "1,20000\n900,40000\n77,1000\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct uw_data d = open_good(
            csv(",test=0"), &(struct uw_data_config){.outputs = 1, .channels = 1,
                                                      .wanted = UW_DATA_WANT_VALUES,
                                                      .advice = cases[i].advice,
                                                      .tokens = cases[i].tokens});
        assert_int_equal(tells(&d, "features go from"), cases[i].features != NULL);
        assert_int_equal(tells(&d, "the values in"), cases[i].values != NULL);
        assert_true(cases[i].features == NULL || tells(&d, cases[i].features));
        assert_true(cases[i].values == NULL || tells(&d, cases[i].values));
        assert_int_equal(tells(&d, "WARNING"), cases[i].advice == UW_DATA_ADVISES);
        uw_data_close(&d);
    }
}

/* The model's outputs have the order of the training data. */
static void test_table_values_keep_their_order_by_name(void **state)
{
    (void)state;
    struct uw_data_config config = {.outputs = 2, .channels = 1, .scale_values = true};
    write_text("a.csv", "x,price,tiny,other\n1,2000,0.5,1\n2,4000,1.5,2\n");
    struct uw_data first = open_good(csv(",target=price+tiny,drop=other,test=0"), &config);
    config.like = uw_data_columns(&first);
    struct uw_data d = open_good(csv(",target=tiny+price,test=0"), &config);
    expect_values(&d, 1, (float[]){1.0f, 1.0f});
    expect_told(&d, "values are in the order of the training data, \"price\" first");
    uw_data_close(&d);
    d = open_good(csv(",target=price+tiny,test=0"), &config);
    assert_false(tells(&d, "order of the training data"));
    assert_false(tells(&d, "trained on other values"));
    uw_data_close(&d);
    d = open_good(csv(",target=tiny+other,test=0"), &config);
    expect_told(&d, "WARNING: the model was trained on other values, as \"price\"");
    uw_data_close(&d);
    write_text("a.csv", "x,price,rooms\n1,2000,1\n2,4000,2\n");
    expect_refused(csv(",test=0"), &config, UW_ERR_MISMATCH, "no column \"tiny\", the trainin");
    uw_data_close(&first);
}

/* With the mean for features a line without a value to compute is none; later gaps get the means of
 * the training data, if nothing else is said. */
static void test_table_gaps_get_means_and_lines_without_a_value_go(void **state)
{
    (void)state;
    struct uw_data_config config = {.outputs = 1, .channels = 2, .wanted = UW_DATA_WANT_VALUES};
    write_text("a.csv", "a,b,y\n1,5,0.5\n,7,0.25\n3,6,\n5,,0.75\n");
    expect_refused(csv(",test=0"), &config, UW_ERR_CORRUPT, "the value of column 1 \"a\"");
    struct uw_data first = open_good(csv(",missing=mean,scale=standard,test=0"), &config);
    assert_int_equal(first.base->samples_n, 3);
    expect_values(&first, 1, (float[]){0.25f});
    expect_sample(&first, 1, (float[]){0.0f, 1.0f}, 0);
    expect_told(&first, "1 of 4 lines of");
    expect_told(&first, "lack the label or a value to compute and are left out");
    config.like = uw_data_columns(&first);
    write_text("a.csv", "a,b,y\n,7,0.5\n9,,0.5\n");
    struct uw_data d = open_good(csv(",test=0"), &config);
    expect_sample(&d, 0, (float[]){0.0f, 1.0f}, 0);
    expect_told(&d, "2 values are missing and get the mean of the training data");
    uw_data_close(&d);
    expect_refused(csv(",test=0,missing=refuse"), &config, UW_ERR_CORRUPT, "1 \"a\" is missing");
    expect_refused(csv(",test=0,scale=none"), &config, UW_ERR_CORRUPT, "column 1 \"a\" is miss");
    write_text("a.csv", "a,b,y\n1,7,0.5\n9,1,\n");
    d = open_good(csv(",test=0"), &config);
    assert_int_equal(d.base->samples_n, 1);
    expect_told(&d, "1 of 2 lines of");
    uw_data_close(&d);
    uw_data_close(&first);
}

static void test_table_that_looks_wrong_is_told(void **state)
{
    (void)state;
    char options[400];
    write_text("a.csv", "1,2,0\n3,4,0\n5,6,0\n");
    struct uw_data d = open_good(csv(",test=0"), NULL);
    expect_told(&d, "WARNING: all 3 labels for training are 0");
    uw_data_close(&d);
    write_text("a.csv", "0,255,0\n3,4,1\n");
    d = open_good(csv(",test=0"), NULL);
    expect_told(&d, "WARNING: features go from 0 to 255 and are not scaled");
    uw_data_close(&d);
    write_text("a.csv", "0,1,0\n3,4,1\n");
    write_text("b.csv", "0,1,2\n");
    snprintf(options, sizeof options, ",%s", at("b.csv"));
    d = open_good(csv(options), NULL);
    expect_told(&d, "WARNING: the test set has 1 classes that training never sees, as 2");
    assert_false(tells(&d, "not scaled"));
    uw_data_close(&d);
    snprintf(options, sizeof options, ",%s", at("a.csv")); /* the same file is not split */
    d = open_good(csv(options), NULL);
    assert_int_equal(d.base->samples_n, 2);
    expect_told(&d, "all 2 samples for training and testing");
    uw_data_close(&d);
}

/* Six classes in turns: every sixth line would be of one class. */
static void test_table_in_turns_is_tested_on_every_class(void **state)
{
    (void)state;
    uint32_t of[6] = {0};
    FILE *f = fopen(at("a.csv"), "w");
    for (int i = 0; i < 600; i++) {
        fprintf(f, "%d.5,%d\n", i, i % 6);
    }
    fclose(f);
    struct uw_data d = open_good(csv(""), &(struct uw_data_config){.test = true});
    assert_int_equal(d.base->samples_n, 100);
    for (uint32_t i = 0; i < 100; i++) {
        float x;
        uint32_t label;
        assert_int_equal(d.base->ops->read(d.base, i, &x, &label), UW_OK);
        of[label]++;
    }
    for (int c = 0; c < 6; c++) {
        assert_in_range(of[c], 16, 17);
    }
    uw_data_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_table_of_a_public_set_is_read_without_an_option,
                                  empty_folder),
        cmocka_unit_test_teardown(test_table_is_read_as_programs_write_it, empty_folder),
        cmocka_unit_test_teardown(test_table_first_sample_with_an_odd_cell_is_no_header,
                                  empty_folder),
        cmocka_unit_test_teardown(test_table_options_decide, empty_folder),
        cmocka_unit_test_teardown(test_table_options_that_are_wrong_are_refused, empty_folder),
        cmocka_unit_test_teardown(test_table_that_cannot_be_read_says_what_helps, empty_folder),
        cmocka_unit_test_teardown(test_table_indices_count_from_where_training_did, empty_folder),
        cmocka_unit_test_teardown(test_table_of_too_many_zeros_is_refused, empty_folder),
        cmocka_unit_test_teardown(test_table_columns_of_one_name_are_told_apart, empty_folder),
        cmocka_unit_test_teardown(test_table_large_labels_are_told_apart, empty_folder),
        cmocka_unit_test_teardown(test_table_labels_may_be_in_a_file_of_their_own, empty_folder),
        cmocka_unit_test_teardown(test_table_values_are_targets, empty_folder),
        cmocka_unit_test_teardown(test_table_values_far_from_1_are_scaled, empty_folder),
        cmocka_unit_test_teardown(test_table_scale_of_values_is_used_again, empty_folder),
        cmocka_unit_test_teardown(test_table_values_follow_parts_and_the_loader, empty_folder),
        cmocka_unit_test_teardown(test_table_without_a_label_is_for_an_autoencoder, empty_folder),
        cmocka_unit_test_teardown(test_table_columns_are_kept_and_used_again, empty_folder),
        cmocka_unit_test_teardown(test_table_label_is_found_by_its_name_again, empty_folder),
        cmocka_unit_test_teardown(test_table_scale_is_advised_where_it_helps, empty_folder),
        cmocka_unit_test_teardown(test_table_values_keep_their_order_by_name, empty_folder),
        cmocka_unit_test_teardown(test_table_gaps_get_means_and_lines_without_a_value_go,
                                  empty_folder),
        cmocka_unit_test_teardown(test_table_values_may_be_classes, empty_folder),
        cmocka_unit_test_teardown(test_table_missing_label_is_no_gap_to_fill, empty_folder),
        cmocka_unit_test_teardown(test_table_that_looks_wrong_is_told, empty_folder),
        cmocka_unit_test_teardown(test_table_in_turns_is_tested_on_every_class, empty_folder),
    };
    return cmocka_run_group_tests_name("table", tests, make_folder, remove_folder);
}
