#include "serve/origin.h"

#include <gtest/gtest.h>

namespace dml {
namespace {

TEST(Origins, AreSpelledAsByBrowsers) {
  for (const char* same : {"*", "null", "https://example.com", "http://localhost:3000", "http://[::1]:8080",
                           "https://example.com:80", "http://example.com:443", "http://example.com:8080"})
    EXPECT_EQ(browser_origin(same), same);
  EXPECT_EQ(browser_origin("HTTPS://Example.com/"), "https://example.com");
}

TEST(Origins, HaveNoPortThatTheSchemeHasAnyway) {
  EXPECT_EQ(browser_origin("http://host:80"), "http://host");
  EXPECT_EQ(browser_origin("https://host:443/"), "https://host");
  EXPECT_EQ(browser_origin("http://[::1]:80"), "http://[::1]");
  EXPECT_EQ(browser_origin("http://[2001:db8::80]"), "http://[2001:db8::80]");
}

TEST(Origins, NeedASchemeAndAHost) {
  for (const char* text : {"", "example.com", "https://", "://host", "https://example.com/page"})
    EXPECT_EQ(browser_origin(text), "") << text;
}

}  // namespace
}  // namespace dml
