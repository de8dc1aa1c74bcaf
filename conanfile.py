"""The Conan 2 package of ecq: what `cmake --install` installs, found by ecq's own CMake configuration."""
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain
from conan.tools.files import copy, load, rmdir

required_conan_version = ">=2.0"


class Ecq(ConanFile):
    name = "ecq"
    description = "Entropy-coded quantisation of neural-network weights"
    license = "Apache-2.0"
    topics = ("compression", "quantization", "neural-networks", "rans", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"compiled": [True, False], "tool": [True, False]}
    default_options = {"compiled": False, "tool": False}
    options_description = {"compiled": "also the static library ecq::compiled", "tool": "also the ecq program"}
    exports_sources = ("CMakeLists.txt", "LICENSE", "THIRD_PARTY_NOTICES", "cmake/*", "include/*", "src/*",
                       "examples/*", "!examples/llama/model/*", "!examples/llama/train.py", "!examples/python/*")
    no_copy_source = True

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "include", "ecq", "version.hpp"))
        self.version = re.search(r'ECQ_VERSION_STRING "([0-9.]+)"', header).group(1)

    def configure(self):
        if self.options.compiled:
            self.package_type = "static-library"

    def requirements(self):
        if self.options.tool:
            # Headers that only the tool's own sources include.
            self.requires("cli11/[>=2.1 <3]", visible=False)
            self.requires("nlohmann_json/[>=3.9 <4]", visible=False)

    def package_id(self):
        if not self.info.options.compiled and not self.info.options.tool:
            self.info.clear()

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        for part in "TESTS", "EXAMPLES", "BENCHMARKS":
            toolchain.cache_variables[f"ECQ_BUILD_{part}"] = False
        toolchain.cache_variables["ECQ_BUILD_TOOL"] = bool(self.options.tool)
        toolchain.cache_variables["ECQ_INSTALL_COMPILED"] = bool(self.options.compiled)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        rmdir(self, os.path.join(self.package_folder, "share", "doc"))
        for name in ("LICENSE", "THIRD_PARTY_NOTICES") if self.options.tool else ("LICENSE",):
            copy(self, name, self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # ecq brings ecqConfig.cmake, with its components and its own check of versions.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("share", "cmake", "ecq")]
        # For build systems other than CMake.
        self.cpp_info.libs = ["ecq_compiled"] if self.options.compiled else []
        self.cpp_info.defines = ["ECQ_COMPILED"] if self.options.compiled else []
        if not self.options.compiled:
            self.cpp_info.libdirs = []
        if not self.options.tool:
            self.cpp_info.bindirs = []
        if self.settings.get_safe("os") in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
