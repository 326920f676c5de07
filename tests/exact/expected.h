/* SPDX-License-Identifier: Apache-2.0
 *
 * Written by exact_weights --print. */
static const char *const expected[] = {
    "126faa61997e9e029199f0a2705f1e9516c1539b896004284421c3223f1d829e", /* mlp */
    "fed3ad6305dfa98ab4024c876b4e10ad31118bac1333305d4b7218ce997553a8", /* lenet */
    "1133cdf4bded22871b8f889045cb07058c695a83c61ef23ab9689786332759cf", /* resnet */
    "e3d35eba7cad3b702c3802d389c0a0ee265780deab6c6abe457a529fef0ca04a", /* mobile */
    "39f8ef887f89a6199e0af1db268c3b7610bdba396df7986d2503b19b0edef2e7", /* gru */
    "1f7275b8f945724e8bd6f275a23e07daebb0edc9166c0609b810f6444d4893bb", /* transformer */
    "15d085d1ef763a49a0b286a0833d4ea5666c107d6f7fa3b4e9eb2e69e768b01d", /* autoencoder */
    "fd3555f7feff1590a282d828b38dbe38ae1b245ddb3e197ab746bdbc85b0d8ff", /* detector */
};
