// Streams of files. libc++ declares these, and zig's libc++ for WASI does not define them; bakery
// adds the sources of std::filesystem in the same way.
#include <fstream>

template class std::basic_filebuf<char>;
template class std::basic_ifstream<char>;
template class std::basic_ofstream<char>;
