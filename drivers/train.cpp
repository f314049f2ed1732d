// ripieno-train: trains one of the ready models under differential privacy.

#include <ripieno/framework/models/model.hpp>
#include <ripieno/framework/training/train_main.hpp>

int main(int argc, char** argv) { return ripieno::train_main(argc, argv, ripieno::make_model); }
