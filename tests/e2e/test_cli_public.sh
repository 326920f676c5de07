#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Imitations of ten public tables: each is read with no option, or with those that the program's own
# sentences name, and a small network learns from it.
here=$(dirname "$(realpath "$0")")
. "$here/cli.sh"

told() { grep -q -e "$1" err || { cat err >&2; fail "not told: $1"; }; }
above() { # above KEY LEAST: the last line of ./out has it larger
    number out "$1" | awk -v least="$2" '{ good = $1 > least } END { exit !good }' ||
        { tail -n 1 out >&2; fail "$set: $1 is not above $2"; }
}
inputs() { # inputs IN OUT: the network for the next runs
    echo "{\"name\": \"m\", \"input\": [$1], \"layers\": [
     {\"name\": \"a\", \"type\": \"dense\", \"out\": 16}, {\"name\": \"r\", \"type\": \"relu\"},
     {\"name\": \"b\", \"type\": \"dense\", \"out\": $2}]}" >m.json
}
train() { # train DATA [FLAG...]: leaves ./out, ./err and m.st
    set=$1
    shift
    expect 0 "$uwasa" train --model m.json --data "$set" --epochs 20 --lr 0.1 --json - --save m.st \
        "$@"
}
eval_it() { expect 0 "$uwasa" eval --model m.json --weights m.st --data "$1" --json -; }
refused() { # refused DATA: a sentence in ./err
    expect 1 "$uwasa" train --model m.json --data "$1" --epochs 1
}

# r(): in 0 .. 1, the same in every awk; g(middle, deviation): near the middle
table() {
    awk "function r() { state = (state * 16807) % 2147483647; return state / 2147483647 }
        function g(m, d) { return m + d * 1.7 * (r() + r() + r() + r() - 2) }
        BEGIN { state = 20071; $1 }" || fail "no table"
}

# ---- wine quality: semicolons, names in quotes, the quality last ----
wine='q = int(g(5.6, 0.9) + 0.5); q = q < 3 ? 3 : q > 8 ? 8 : q; t = r() < 0.4 ? "red" : "white"
    x = g(8, 1.5); for (k = 1; k < 5; k++) x = x d g(5, 1)
    x = x d g(t == "red" ? 46 : 138, 16); for (k = 6; k < 9; k++) x = x d g(5, 1)
    x = x d g(0.2 + 0.1 * q, 0.05) d g(6 + 0.8 * q, 0.4)'
names='"fixed acidity" d "volatile acidity" d "citric acid" d "residual sugar" d "chlorides" d
    "total sulfur dioxide" d "density" d "pH" d "free sulfur dioxide" d "sulphates" d "alcohol"'
table 'd = "\";\""; print "\"" '"$(echo "$names" | tr -d '\n')"' d "quality\""; d = ";"
    for (i = 0; i < 600; i++) { '"$wine"'; print x ";" q }' >winequality-red.csv
inputs 11 6
train csv:winequality-red.csv
told '600 lines of 12 columns between semicolons, a header; 11 features, fixed acidity to alcohol; '
told 'label in column 12 "quality"'
told '6 classes: 3 ([0-9]*), 4 .*; features as they are; 500 samples for training, 100 for testing'
told 'class 0 is label 3, class 5 is label 8'
told 'scale=standard'
train csv:winequality-red.csv,scale=standard
told 'features with mean 0 and deviation 1'
above test_accuracy 0.6
inputs 11 1
train csv:winequality-red.csv,scale=standard
told 'the value in column 12 "quality" is learned minus 5.* and divided by 0.9'
eval_it csv:winequality-red.csv
above r2 0.5
# both colours: a column of words in front
table 'd = ","; print "type," '"$(echo "$names" | tr -d '\n')"' d "quality"
    for (i = 0; i < 600; i++) { '"$wine"'; print t "," x "," q }' >both.csv
inputs 11 6
train csv:both.csv,scale=standard
told 'column 1 "type" is left out: it holds words'
told 'label in column 13 "quality"'
above test_accuracy 0.6

# ---- iris: words for classes; with names and numbers of the lines ----
iris='split("5 5.9 6.6 3.4 2.8 3 1.5 4.3 5.5 0.2 1.3 2", m, " ")
    split("Iris-setosa Iris-versicolor Iris-virginica", w, " ")
    for (i = 0; i < 150; i++) { c = int(i / 50); x = ""
        for (k = 0; k < 4; k++) x = x sprintf("%.1f,", g(m[3 * k + c + 1], 0.25))'
table "$iris"'; print x w[c + 1] } print ""' >iris.data
table 'print "Id,SepalLengthCm,SepalWidthCm,PetalLengthCm,PetalWidthCm,Species"
    '"$iris"'; print i + 1 "," x w[c + 1] }' >Iris.csv
inputs 4 3
train csv:iris.data
told '150 lines of 5 columns between commas, no header; 4 features; label in column 5'
told '3 classes: Iris-setosa (50), Iris-versicolor (50), Iris-virginica (50); features as they '
told '0 is Iris-setosa, 2 is Iris-virginica'
above test_accuracy 0.8
train csv:Iris.csv
told 'column 1 "Id" is left out: it counts the lines'
told '4 features: SepalLengthCm, .*; label in column 6 "Species"'
above test_accuracy 0.8

# ---- wheat seeds: tabs, some of them twice, classes from 1 ----
table 'split("14.3 18.3 11.9 14.3 16.1 13.2 5.5 6.1 5.2 3.2 3.7 2.9 2.7 3.6 4.8 5.1 6 5.1", m, " ")
    for (i = 0; i < 210; i++) { c = int(i / 70); x = ""
        for (k = 0; k < 6; k++) x = x sprintf("%.4g\t%s", g(m[3 * k + c + 1], 0.2 + (k < 2) / 2),
                                              (i + 3 * k) % 11 ? "" : "\t")
        print x sprintf("%.4f\t", g(0.87, 0.01)) c + 1 }' >seeds_dataset.txt
inputs 7 3
train csv:seeds_dataset.txt
told '210 lines of 8 columns between blanks, no header; 7 features; label in column 8'
told '3 classes: 1 (70), 2 (70), 3 (70); '
told 'labels go from 1 to 3: they are counted from 0, class 0 is label 1'
told 'scale=standard'
train csv:seeds_dataset.txt,scale=standard
above test_accuracy 0.9
expect 0 "$uwasa" predict --model m.json --weights m.st seeds_dataset.txt
[ "$(grep -c '^[123]	[01]\.' out)" = 210 ] || fail "not every line with two tabs has an answer"
tail -n 1 seeds_dataset.txt >row
expect 0 "$uwasa" predict --model m.json --weights m.st row
grep -q '^3	' out || fail "an answer is not the label that the file has"
expect 0 "$uwasa" eval --model m.json --weights m.st --data csv:seeds_dataset.txt
grep -q '^ *1 *2 *3$' out || fail "the matrix of confusion has other labels than the file"

# ---- credit card fraud: the class in quotes, 2 in 1000 are frauds ----
table 'x = "\"Time\""; for (k = 1; k < 29; k++) x = x ",\"V" k "\""; print x ",\"Amount\",\"Class\""
    for (i = 0; i < 5000; i++) { c = i % 500 == 77; x = 3 * i
        for (k = 1; k < 29; k++) x = x sprintf(",%.9g", g(c && k < 7 ? -4 : 0, 1))
        print x sprintf(",%.2f,\"%d\"", 200 * r() * r(), c) }' >creditcard.csv
inputs 30 2
train csv:creditcard.csv,scale=standard
told '5000 lines of 31 columns between commas, a header; 30 features, Time to Amount; label in '
told '2 classes: 0 (4990), 1 (10); '
told 'only 8 of 4167 samples for training are of class 1, .*: train --class-weights balanced'
train csv:creditcard.csv,scale=standard --class-weights balanced
eval_it csv:creditcard.csv
above roc_area 0.99
grep -q '"recall":[^,}]*,.*"recall":[01]' out || fail "no recall of the rare class"

# ---- Kaggle's digits: the label first, and samples without ----
digits='for (i = 0; i < n; i++) { c = i % 10; x = ""
    for (k = 0; k < 784; k++) x = x "," (k % 10 == c && k > 99 && k < 700 ? int(256 * r()) : 0)'
pixels='for (k = 0; k < 784; k++) x = x ",pixel" k'
table 'n = 300; x = "label"; '"$pixels"'; print x; '"$digits"'; print c x }' >train.csv
table 'n = 20; x = ""; '"$pixels"'; print substr(x, 2); '"$digits"'; print substr(x, 2) }' >test.csv
inputs 784 10
train csv:train.csv
told '300 lines of 785 columns between commas, a header; 784 features, pixel0 to pixel783; label'
told '10 classes: 0 (30), .* 9 (30); features as they are; 250 samples for training, 50 for testing'
told 'features go from 0 to 255 and are not scaled, which learns badly: scale=255 divides them'
train csv:train.csv,scale=255
above test_accuracy 0.9
refused csv:test.csv
told 'uwasa predict FILE asks without'
expect 0 "$uwasa" predict --model m.json --weights m.st test.csv
[ "$(cut -c 1 out | tr -d '\n')" = 01234567890123456789 ] || fail "digits are not found: $(cat out)"

# ---- UCI HAR: blanks in front, exponents, labels in a file of their own ----
for part in train:300 test:100; do
    table 'for (i = 0; i < '${part#*:}'; i++) { c = i % 6; x = ""; print c + 1 >"y_'${part%:*}'.txt"
        for (k = 0; k < 561; k++) x = x sprintf("%16.7e", (k % 6 == c ? 0.1 : -0.6) + 0.6 * r())
        print x }' >"X_${part%:*}.txt"
done
inputs 561 6
refused csv:X_train.txt
told 'none is left for the label: labels=FILE names a file of them'
train csv:X_train.txt,labels=y_train.txt
told '300 lines of 561 columns between blanks, no header; 561 features; labels in y_train.txt'
told '6 classes: 1 (50), 2 (50), 3 (50), 4 (50), 5 (50), 6 (50); features as they are; 250 samples '
above test_accuracy 0.9
train csv:X_train.txt,labels=y_train.txt,test=X_test.txt,test-labels=y_test.txt
told '300 samples for training, 100 of X_test.txt for testing'
above test_accuracy 0.9

# ---- houses of California: gaps, a column of words, large values ----
table 'split("NEAR BAY:<1H OCEAN:INLAND:NEAR OCEAN", w, ":")
    print "longitude,latitude,housing_median_age,total_rooms,total_bedrooms,population,households,"\
        "median_income,median_house_value,ocean_proximity"
    for (i = 0; i < 900; i++) { c = int(4 * r()) + 1; y = 1 + 6 * r(); t = 1500 + 2000 * r()
        v = 50000 * y + (c == 3 ? -40000 : 30000) + g(40000, 15000)
        printf "%.2f,%.2f,%d.0,%.1f,%s,%.1f,%.1f,%.4f,%.1f,%s\n", g(c == 3 ? -117 : -121, 0.5),
            g(35.6, 2), 1 + 51 * r(), t, i % 97 == 3 ? "" : t / 5, t / 2, t / 5.2, y, v, w[c] }' \
    >housing.csv
inputs 8 1
refused csv:housing.csv
told 'housing.csv:5:.*"total_bedrooms" is missing; missing=drop .*, missing=mean takes the'
"$uwasa" train --model m.json --data csv:housing.csv,missing=mean --epochs 1 >out 2>err &&
    fail "a word is a value"
told 'target=NAME names a value to compute'
refused csv:housing.csv,missing=mean,target=median_house_value
told 'column 10 "ocean_proximity" holds words, features are numbers: pandas.get_dummies makes them, drop=10 leaves'
california=csv:housing.csv,missing=mean,target=median_house_value,drop=10,scale=standard
train $california
told '900 lines of 10 columns between commas, a header; 8 features: longitude, .*, median_income; '
told '; value in column 9 "median_house_value"'
told 'the value in column 9 .* is learned minus [0-9.]* and divided by [0-9.]*: losses are those '
told 'target-scale=none leaves values as they are'
eval_it csv:housing.csv,missing=mean,test=0
told 'values are scaled as in training'
above r2 0.8
above mae 5000
# answers are in dollars, of whatever the model becomes
sed -n '2,3p;6,9p' housing.csv >rows.csv
expect 0 "$uwasa" predict --model m.json --weights m.st rows.csv
awk -F, 'NR == FNR { y[NR] = $1; next } { d = y[FNR] - $9; bad += d > 150000 || d < -150000 }
    END { exit bad != 0 || FNR != 6 }' out rows.csv ||
    { cat out >&2; fail "answers in other units"; }
mv out answers
expect 0 "$uwasa" convert m.json m.onnx --weights m.st
told 'm.onnx: its outputs are scaled values: an answer is output / target_inverse + target_mean'
expect 0 "$uwasa" predict --model m.onnx rows.csv
cmp -s out answers || fail "the ONNX file gives other answers"
expect 0 "$uwasa" train --model m.json --data $california --epochs 22 --lr 0.1 --save m.st --resume
told 'values are scaled as in training'
expect 0 "$uwasa" convert m.onnx m.c
told 'm.c: its outputs are scaled values: NAME_values makes answers of them'
grep -q ' \* *extern void m_values(float \*y);' m.c || fail "no m_values for a board"
if command -v cc >/dev/null; then
    cat >board.c <<'END'
#include <stdio.h>
extern void m_values(float *y);
int main(void)
{
    float y[2] = {0.0f, 7.0f};
    m_values(y);
    printf("%d %g\n", y[0] > 150000.0f && y[0] < 350000.0f, (double)y[1]);
    return 0;
}
END
    cc -std=c11 -Wall -Wextra -Werror -o board board.c m.c \
        -I "$here/../../runtime/include" || fail "the constants do not compile"
    [ "$(./board)" = '1 7' ] || fail "m_values: $(./board)"
fi
# --loss and target-scale decide
for loss in l1 huber; do
    train "$california,target-scale=100000" --loss $loss
    told 'is learned divided by 100000: '
    eval_it csv:housing.csv,missing=mean,test=0
    above r2 0.5
done
expect 1 "$uwasa" train --model m.json --data "$california,target-scale=none" --epochs 20 --lr 0.1
told 'NaN or infinite; a lower .*may help'
expect 1 "$uwasa" train --model m.json --data "$california" --loss binary --epochs 1
told 'binary cross-entropy compares with values from 0 to 1, here are others'
expect 0 "$uwasa" sim --model m.json --data "$california" --nodes 3 --steps 20 --step-seconds 0.01
told 'is learned minus'
# a node leaves values as they are, because other nodes have other ones
"$uwasa" keygen run.key >/dev/null 2>&1
houses=csv:housing.csv,missing=mean,target=median_house_value,drop=10,scale
node() { # node DATA: alone, of few steps
    timeout 60 "$uwasa" node --set name=a --set run=r --set key=run.key --set model=m.json \
        --set data="$1" --set steps=20 --set lr=1e-12 --set listen=127.0.0.1:0 \
        --set linger_seconds=0 >out 2>err </dev/null || { cat err >&2; fail "node of $1"; }
}
node $houses=255
told 'WARNING: the values in column 9 .* target-scale=N divides by N'
grep -q 'is learned' err && fail "a node scales values unasked"
node $houses=255,target-scale=100000
told 'is learned divided by 100000: '
grep -q WARNING.*scale err && fail "a scale that all nodes have is doubted"
for own in 255,target-scale=standard standard,target-scale=100000; do
    node $houses=$own
    told "WARNING: scale standard is that of this node's data"
done
# weights that somebody has trained are for the values as they are; one option is named
sed 's/"m"/"fresh"/' m.json >fresh.json
expect 0 "$uwasa" train --model fresh.json --data $california,target-scale=none --steps 1 --lr 0 \
    --save fresh.st
"$uwasa" convert fresh.json fresh.onnx --weights fresh.st >/dev/null || fail "no fresh.onnx"
sed 's/uwasa\.data/uwasa.dat_/' fresh.onnx >strange.onnx        # from elsewhere: nothing is kept
expect 1 "$uwasa" train --model strange.onnx --data $california --epochs 3 --lr 0.1
told 'the values in column 9 .*: target-scale=standard is for a model that nobody has trained'
expect 0 "$uwasa" train --model strange.onnx --data $california,target-scale=standard --epochs 20 \
    --lr 0.1

# ---- houses of Boston: blanks, no header ----
table 'for (i = 0; i < 500; i++) { x = g(6.3, 0.7); y = 1 + 25 * r(); v = 9 * x - 0.6 * y - 26
    printf " %.5f  %.2f  %.3f  %d  %.4f  %.4f  %.2f  %.4f  %2d  %d.0  %.2f %.2f %6.2f  %.2f\n",
        r() * 9, 12.5, g(11, 3), r() < 0.07, g(0.5, 0.1), x, 100 * r(), g(4, 1), 1 + 24 * r(),
        187 + 500 * r(), g(18, 1), g(356, 30), y, v + g(0, 1) }' >housing.data
inputs 13 1
train csv:housing.data
told '500 lines of 14 columns between blanks, no header; 13 features; value in column 14'
told 'the value in column 14 is learned minus'
told 'scale=standard'
train csv:housing.data,scale=standard
eval_it csv:housing.data
above r2 0.7

# ---- sonar, ECG, spambase: no header, the label last ----
table 'for (i = 0; i < 208; i++) { c = i < 97 ? "R" : "M"; x = ""
    for (k = 0; k < 60; k++)
        x = x sprintf("%.4f,", 0.2 + 0.3 * r() + 0.3 * ((k < 20) == (c == "M")))
    print x c }' >sonar.all-data
inputs 60 2
train csv:sonar.all-data
told '208 lines of 61 columns between commas, no header; 60 features; label in column 61'
told '2 classes: M (111), R (97); '
above test_accuracy 0.9
for part in train:400 test:100; do
    table 'for (i = 0; i < '${part#*:}'; i++) { c = i % 8 < 4 ? 0 : i % 8 - 3; x = ""
        for (k = 0; k < 187; k++)
            x = x sprintf("%.18e,", k < 150 ? 0.4 + 0.4 * sin(k / (5 + 3 * c)) + 0.2 * r() : 0)
        print x sprintf("%.18e", c) }' >"mitbih_${part%:*}.csv"
done
inputs 187 5
train csv:mitbih_train.csv,mitbih_test.csv
told '400 lines of 188 columns between commas, no header; 187 features; label in column 188'
told '5 classes: 0 (252), 1 (62), .* 4 (62); features as they are; 400 samples for training, 100 of mi'
above test_accuracy 0.9
table 'for (i = 0; i < 600; i++) { c = i < 236; x = ""
    for (k = 0; k < 54; k++) x = x (r() < (c == (k % 2) ? 0.5 : 0.1) ? sprintf("%.2g,", r()) : "0,")
    print x sprintf("%.3f,%d,%d,%d", 1 + 9 * r(), 1 + 60 * r(), 1 + (c ? 300 : 150) * r(), c) }' \
    >spambase.data
inputs 57 2
train csv:spambase.data
told '600 lines of 58 columns between commas, no header; 57 features; label in column 58'
told '2 classes: 0 (364), 1 (236); '
told 'scale=standard'
train csv:spambase.data,scale=standard
above test_accuracy 0.8

# ---- gas sensors: a label and INDEX:VALUE, zeros left out; the test file lacks the last index ----
gas='c = i % 3 + 1; x = c; for (k = 1; k <= last; k++)
    if (k % 3 + 1 == c || r() < 0.3) x = x sprintf(" %d:%.6f", k, 1000 * (r() + (k % 3 + 1 == c)))
    print x " "'
table "last = 8; for (i = 0; i < 400; i++) { $gas }" >gas_train.dat
table "last = 7; for (i = 0; i < 100; i++) { $gas }" >gas_test.dat
inputs 8 3
train csv:gas_train.dat,gas_test.dat,scale=standard
told '400 lines of a label and INDEX:VALUE, as LIBSVM has them; indices from 1 to 8, 8 features'
told 'labels go from 1 to 3'
above test_accuracy 0.9
eval_it csv:gas_test.dat,test=0
above test_accuracy 0.9

# ---- occupancy: numbers of the lines without a name, a time, the label last; adult: many words ----
table 'print "\"date\",\"Temperature\",\"Light\",\"Occupancy\""
    for (i = 0; i < 400; i++) { c = r() < 0.3
        printf("\"%d\",\"2015-02-04 %02d:%02d:00\",%.2f,%.1f,%d\n", i + 1, i / 60, i % 60, g(20 + 3 * c, 1),
               400 * c + 100 * r(), c) }' >occupancy.txt
inputs 2 1
refused csv:occupancy.txt
told 'column 2 "date" holds dates or times, .* drop=2 leaves it out'
train csv:occupancy.txt,drop=2,scale=standard
told 'label in column 5 "Occupancy"'
above test_accuracy 0.9
table 'for (i = 0; i < 400; i++) { c = r() < 0.3
    printf("%d, %s, %d, %s, %d, %s\n", 20 + 40 * r() + 20 * c, r() < 0.5 ? "Private" : "?", 9 + 6 * r(),
           r() < 0.5 ? "Sales" : "Tech-support", 30 + 10 * r() + 10 * c, c ? ">50K" : "<=50K") }' >adult.data
inputs 3 1
refused csv:adult.data
told 'columns of words are no features: pandas.get_dummies makes numbers of them, drop=2+4 leaves them out'
train csv:adult.data,drop=2+4,scale=standard
above test_accuracy 0.7

# ---- arrays of NumPy with labels of whole numbers from 1: answers have the same ----
npy() { # npy SHAPE: the head of an array of bytes
    printf '\223NUMPY\001\000\166\000%-117s\n' \
        "{'descr': '|u1', 'fortran_order': False, 'shape': ($1), }"
}
{ npy '90, 3'; table 'for (i = 0; i < 90; i++) for (k = 0; k < 3; k++)
    printf "%c", 20 + 20 * r() + 60 * (i % 3 == k)'; } >x.npy
{ npy '90,'; table 'for (i = 0; i < 90; i++) printf "%c", 1 + i % 3'; } >y.npy
inputs 3 3
train npy:x.npy,y.npy,scale=standard
told '3 classes: 1 (30), 2 (30), 3 (30); '
above test_accuracy 0.9
printf '20,20,100\n100,20,20\n' >row
expect 0 "$uwasa" predict --model m.json --weights m.st row
[ "$(cut -f 1 out | tr '\n' ' ')" = '3 1 ' ] || fail "answers have other labels than the array"
expect 0 "$uwasa" eval --model m.json --weights m.st --data npy:x.npy,y.npy
grep -q '^ *1 *2 *3$' out || fail "the matrix of confusion has other labels than the array"
echo passed
